"""What the page asks of the server: each call is a POST with JSON, by somebody logged in.

A cookie alone gives no order: each call also has a header that no other site's page can send,
and comes from our own page where the browser says where it comes from.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from dpquery.core.privacy_loss import decimal_text
from dpquery.core.source_text import Source, Span, visible
from dpquery.editing.completion import column_of, suggestions
from dpquery.errors import DPQueryError
from dpquery.server.service import LOGIN_SECONDS, Client, Service
from dpquery.server.users import LONGEST as LONGEST_NAME
from dpquery.server.web.logins import LONGEST, Busy, Login, Sessions
from dpquery.server.web.quick_fixes import pasted
from dpquery.server.worker_messages import OWNER_CALLS, Fault, Reply
from dpquery.server.worker_pool import FAILED, Ticket
from dpquery.sql.commands import Create, Drop, Set, read_aside

MOST_BYTES = 128 << 10
"""Of what the page sends: a statement has 64 kB at most."""
MOST_LOGINS = 64
"""That are tried at once; each wrong one takes a while."""
MOST_SUGGESTIONS = 40
MOST_PASTED = 40
"""Places that an offered text is tried at."""
LONGEST_PASTED = 2000
"""Characters of a statement in which an offered text finds its place."""
LONGEST_COMPLETED, LONGEST_NOTED = 20_000, 10_000
MOST_CHARGED = 200
"""Earlier charges that the history lists."""
SECONDS = 10.0
"""How long the body of a call may take to arrive."""
HEADER = "x-dpquery"
"""Without it no call is answered: pages of other sites cannot send it."""

Given = dict[str, Any]


class Wrong(Exception):
    """A call that is not answered: its status, and why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


class Api:
    """The calls of the page."""

    def __init__(self, service: Service, *, secure: bool) -> None:
        """Answer by a service; with TLS, cookies are for encrypted connections alone."""
        self._service = service
        self._secure = secure
        self.sessions = Sessions(service)
        self._tried = 0
        self._cookie = "__Host-dpquery" if secure else "dpquery"
        self._calls: dict[str, Callable[[Login, Given], Awaitable[Any]]] = {
            "me": self._me,
            "schema": self._schema,
            "complete": self._complete,
            "price": self._price,
            "paste": self._paste,
            "ask": self._ask,
            "stop": self._stop,
            "budget": self._budget,
            "history": self._history,
        }

    async def __call__(self, request: Request) -> Response:
        """Answer one call."""
        try:
            self._require_own_page(request)
            given = await _body(request)
            return await self._answered(request, request.path_params["call"], given)
        except Wrong as wrong:
            return _json({"error": wrong.why}, wrong.status)
        except Busy:
            return _json({"error": "too many requests at once; try again"}, 429)
        except ClientDisconnect:
            return Response(status_code=400)
        except Exception as fault:  # noqa: BLE001 - whatever it is, its text must not surface
            self._service.log("fault", what=type(fault).__name__)
            return _json({"error": "the server made a mistake"}, 500)

    def _require_own_page(self, request: Request) -> None:
        origin = request.headers.get("sec-fetch-site", "same-origin")
        if HEADER not in request.headers or origin != "same-origin":
            raise Wrong(403, "this is for the server's own page")

    async def _answered(self, request: Request, call: str, given: Given) -> Response:
        if call == "login":
            return await self._login(request, given)
        token = request.cookies.get(self._cookie, "")
        login = self.sessions.find(token)
        if login is None:
            raise Wrong(401, "log in first")
        if call == "logout":
            self.sessions.close(token)
            return self._with_cookie(_json({}), "", 0)
        if call == "stop":  # whatever else is under way
            return _json(await self._stop(login, given))
        with self.sessions.entered(login.client.name):
            if call in OWNER_CALLS:
                return _replied(await self._service.ask(login.client, call, given))
            if call not in self._calls:
                raise Wrong(404, "there is no such call")
            value = await self._calls[call](login, given)
            return value if isinstance(value, Response) else _json(value)

    # Logins.

    async def _login(self, request: Request, given: Given) -> Response:
        name, password = _text(given, "name", LONGEST_NAME), _text(given, "password", 1024)
        place = request.client.host if request.client else ""
        if self._tried >= MOST_LOGINS:
            raise Wrong(503, "too many logins at once; try again")
        self._tried += 1
        try:
            async with asyncio.timeout(LOGIN_SECONDS):
                client = await self._admitted(name, password, place)
        except TimeoutError:
            raise Wrong(503, "the login took too long") from None
        finally:
            self._tried -= 1
        if self._service.is_analyst(name):
            await self._service.ask(client, "begin")
        token = self.sessions.open(client)
        login = self.sessions.find(token)
        if login is None:
            raise Wrong(401, _NOT_THESE)
        return self._with_cookie(_json(await self._me(login, {})), token, int(LONGEST))

    async def _admitted(self, name: str, password: str, place: str) -> Client:
        service = self._service
        if not service.require_unlocked(name, place):
            raise Wrong(429, "too many wrong passwords: wait a minute")
        if not service.verifier(name).takes(password):
            await service.refused(name, place)
            raise Wrong(401, _NOT_THESE)
        client = service.admitted(name, place, "page")
        if client is None:
            raise Wrong(401, _NOT_THESE)
        return client

    def _with_cookie(self, response: Response, token: str, seconds: int) -> Response:
        response.set_cookie(
            self._cookie,
            token,
            max_age=seconds,
            httponly=True,
            samesite="strict",
            secure=self._secure,
        )
        return response

    async def _me(self, login: Login, _: Given) -> Given:
        own = self._service.policy.price.epsilon
        return {
            "name": visible(login.client.name),
            "owner": login.client.owner,
            "analyst": self._service.is_analyst(login.client.name),
            "eps": login.eps,
            "owner_eps": None if own is None else decimal_text(own),
            "running": login.ticket is not None,
        }

    # What costs nothing.

    async def _rows(self, login: Login, do: str, given: Given | None = None) -> list[Given]:
        """Return what a worker lists, beside what the login runs: its session stays as it is.

        Raises:
            Wrong: it was refused.
        """
        aside = replace(login.client)
        reply = await self._service.ask(aside, do, given, whole="rows")
        if reply.ended != "answered":
            raise Wrong(503, reply.fault.title if reply.fault else "not answered")
        found: list[Given] = json.loads(reply.body)
        return found

    async def _schema(self, login: Login, _: Given) -> list[Given]:
        found = []
        for row in await self._rows(login, "tables"):
            columns = await self._rows(login, "describe", {"name": row["table"]})
            found.append(row | {"columns": columns})
        login.known = {
            one["table"]: tuple(column_of(column) for column in one["columns"]) for one in found
        }
        return found

    async def _complete(self, login: Login, given: Given) -> list[Given]:
        before, after = _text(given, "before"), _text(given, "after")
        if len(before) + len(after) > LONGEST_COMPLETED:
            return []
        if login.known is None:
            await self._schema(login, {})
        found = suggestions(before, after, login.known or {})
        return [
            {"text": one.text, "typed": before[one.start :], "note": visible(one.note)}
            for one in islice(found, MOST_SUGGESTIONS)
        ]

    async def _price(self, login: Login, given: Given) -> Response:
        aside = replace(login.client)
        told = {"text": _text(given, "text")}
        return _replied(await self._service.ask(aside, "explain", told, whole="page"))

    async def _paste(self, login: Login, given: Given) -> Given:
        """Say what the statement is with an offered text in its place."""
        text, offered = _text(given, "text"), _text(given, "offered")
        match given.get("span"):
            case [int(start), int(end)] if 0 <= start <= end <= len(text):
                span = Span(start, end)
            case _:
                raise Wrong(400, "a span is a start and an end")
        over = text[:start] + offered + text[end:]
        tried = set()
        for written in islice(chain((over,), pasted(text, span, offered)), MOST_PASTED):
            if len(text) > LONGEST_PASTED or written in tried:
                continue
            tried.add(written)
            aside = replace(login.client)
            reply = await self._service.ask(aside, "columns", {"text": written})
            if reply.ended == "answered":
                return {"text": written}
        return {"text": over}

    async def _budget(self, login: Login, _: Given) -> Response:
        aside = replace(login.client)
        return _replied(await self._service.ask(aside, "budget", whole="page"))

    async def _history(self, login: Login, _: Given) -> Given:
        """Return what this login has asked, and what was charged before it began."""
        charges = await self._rows(login, "ledger")
        times = [datetime.fromisoformat(row["at"]).replace(tzinfo=UTC) for row in charges]
        earlier = [
            {"at": at.isoformat(), "text": row["query"], "loss": row["epsilon"]}
            for at, row in zip(times, charges, strict=True)
            if at < login.began
        ][-MOST_CHARGED:]
        return {"now": list(login.asked)[::-1], "earlier": earlier[::-1]}

    # Statements.

    async def _ask(self, login: Login, given: Given) -> Response:
        text = _text(given, "text")
        if login.ticket is not None:
            raise Wrong(409, "another statement of yours is running: stop it, or wait")
        login.ticket = ticket = Ticket()
        told = {"text": text, "refresh": given.get("refresh") is True}
        try:
            reply = await self._service.ask(
                login.client, "sql", told, whole="page", ticket=ticket
            )
        finally:
            login.ticket = None
        if reply.ended == "answered":
            _follow(login, text)
        login.asked.append(_noted(text, reply))
        return _replied(reply)

    async def _stop(self, login: Login, _: Given) -> Given:
        if login.ticket is not None:
            login.ticket.stop()
        return {}


_NOT_THESE = "no user has this name and password"


def _follow(login: Login, text: str) -> None:
    """Keep up with what a statement has changed in the session."""
    try:
        match read_aside(Source(text)):
            case Set("eps", value):
                login.eps = value or ""
            case Create() | Drop():
                login.known = None
    except DPQueryError:
        return


def _noted(text: str, reply: Reply) -> Given:
    """Return a line of the history."""
    line = {
        "at": datetime.now(UTC).isoformat(),
        "text": text[:LONGEST_NOTED],
        "ended": reply.ended,
    }
    if reply.ended == "answered":
        form = json.loads(reply.body)
        line |= {"loss": form["loss"], "free": form["free"], "paid": form["paid"]}
    elif reply.fault is not None:
        line["title"] = reply.fault.title
    return line


def _replied(reply: Reply) -> Response:
    """Pass on how a worker's call ended, with its form as the worker wrote it."""
    own = b"" if reply is FAILED else reply.body  # which is for clients of another kind
    form = own or json.dumps(_form(reply.fault)).encode()
    return Response(
        b'{"ended":"' + reply.ended.encode() + b'","form":' + form + b"}",
        media_type="application/json",
    )


def _form(fault: Fault | None) -> Given | None:
    """Write a fault that comes from no worker."""
    if fault is None:
        return None
    offered = [{"text": fault.remedy, "kind": "statement"}] if fault.remedy else []
    return {
        "code": fault.code,
        "verdict": "refused",
        "title": fault.title,
        "caret": "",
        "text": None,
        "span": None,
        "why": [fault.why] if fault.why else [],
        "try": offered,
        "budget": fault.budget,
    }


async def _body(request: Request) -> Given:
    """Read the body of a call.

    Raises:
        Wrong: it is too long, too slow, or no object in JSON.
    """
    parts, length = [], 0
    try:
        async with asyncio.timeout(SECONDS):
            async for part in request.stream():
                parts.append(part)
                length += len(part)
                if length > MOST_BYTES:
                    raise Wrong(413, f"a call has at most {MOST_BYTES} bytes")
    except TimeoutError:
        raise Wrong(408, "the call took too long to arrive") from None
    try:
        given = json.loads(b"".join(parts) or b"{}")
        json.dumps(given, ensure_ascii=False).encode()  # half a character is none
    except (ValueError, RecursionError):
        raise Wrong(400, "a call is an object in JSON") from None
    if not isinstance(given, dict):
        raise Wrong(400, "a call is an object in JSON")
    return given


def _text(given: Given, name: str, longest: int = MOST_BYTES) -> str:
    value = given.get(name)
    if not isinstance(value, str) or len(value) > longest:
        raise Wrong(400, f"{name} is a text of at most {longest} characters")
    return value


def _json(value: object, status: int = 200) -> Response:
    return Response(json.dumps(value), status, media_type="application/json")

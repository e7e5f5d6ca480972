"""Where a ledger is: in memory, in a file, or on a PostgreSQL server."""

from __future__ import annotations

import os
import re
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from dpquery.policy.document import Section, Unfit, written
from dpquery.policy.files import unlinked
from dpquery.policy.model import LedgerSettings, Server
from dpquery.policy.values import read_name, read_text

_SCHEMA: Final = "dpquery"
_SCHEMES: Final = ("postgresql://", "postgres://")
_EXAMPLE: Final = "postgresql://db.example.org/privacy?sslmode=verify-full"
_SERVER: Final = re.compile(r"^postgres(ql)?:|://|\b(host|dbname|password) *=")
"""What no file of one's own is called: a server is meant, if not always in a URL."""
_OPTIONS: Final = frozenset(
    (
        *("host", "connect_timeout", "passfile", "channel_binding", "gssencmode"),
        *("sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl"),
    )
)
"""What a URL may say beside its place: how to reach it, and nothing of what is done there."""
_IDENTIFIER_MAX: Final = 63
"""Bytes; PostgreSQL cuts off the rest, and two names would be one."""


def read_ledger(section: Section) -> LedgerSettings:
    """Read `[ledger]`, all of which may be absent.

    Raises:
        PolicyInvalid: DPQ603, DPQ604, or DPQ607 where both a file and a server are named, or
            one file has two uses.
    """
    section.only(("path", "high_water", "url", "schema"))
    policy = section.document.path
    high_water = section.read("high_water", _read_mark, None)
    mark = unlinked(policy.parent / high_water) if high_water else None
    if "url" in section or "schema" in section:
        server = _server(section)
        _require_apart(section, "high_water", mark, [policy])
        return LedgerSettings(
            None, mark, server, policy.with_name(f"{policy.stem}.ledger.faults")
        )
    path = policy.parent / section.read("path", read_text, f"{policy.stem}.ledger")
    ledger = unlinked(path)
    _require_apart(section, "path", ledger, [policy])
    _require_apart(section, "high_water", mark, [policy, ledger])
    if "high_water" in section:
        return LedgerSettings(ledger, mark)
    return LedgerSettings(ledger, _usual_mark(ledger), usual_mark=True)


def _read_mark(value: object) -> str:
    """Read a path, or false, which is no path."""
    if value is False:
        return ""
    if not isinstance(value, str):
        why = "it is on where it is left out; a text names another place for it."
        raise Unfit(f"must be a text or false, not {written(value)}", why, "leave it out")
    return read_text(value)


def _usual_mark(ledger: Path) -> Path | None:
    """Return where the mark of a ledger is that the policy names no place for.

    It is beside what programs keep for this user: whoever replaces a ledger, or brings back
    an old copy with all files of its folder, does not replace it with them. A ledger among
    temporary files is not meant to last.
    """
    state = os.environ.get("XDG_STATE_HOME", "")
    try:
        place = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    except RuntimeError:  # nobody's home
        return None
    if ledger.is_relative_to(Path(tempfile.gettempdir()).resolve()):
        return None
    return place / "dpquery" / f"{sha256(os.fsencode(ledger)).hexdigest()[:32]}.mark"


def ledger_of_ones_own(given: object) -> LedgerSettings:
    """Read what `connect` is told of a ledger, in a policy's absence: a file, or a URL.

    Raises:
        Unfit: it is neither.
    """
    if given is None:
        return LedgerSettings(None)
    if not isinstance(given, str | Path):
        why = "charges are kept in a file, or on a server."
        raise Unfit(f"is no path: {written(given)}", why, 'ledger="my.ledger"', code="DPQ608")
    text = str(given)
    if _SERVER.search(text):
        return LedgerSettings(None, server=Server(_read_url(text), _SCHEMA))
    return LedgerSettings(unlinked(Path(given)))


def _require_apart(section: Section, key: str, file: Path | None, others: list[Path]) -> None:
    if file in others:
        why = "the ledger, its high-water mark and the policy are files of their own."
        unfit = Unfit("names a file with another use", why, "another name", code="DPQ607")
        raise section.refuse(key, unfit)


def _server(section: Section) -> Server:
    if "path" in section:
        why = "charges are added up in one place."
        unfit = Unfit("names a second ledger", why, "one of url and path", code="DPQ607")
        raise section.refuse("path", unfit)
    if "url" not in section:
        why = "files have no schemas."
        unfit = Unfit("is of no server", why, f'url = "{_EXAMPLE}"', code="DPQ607")
        raise section.refuse("schema", unfit)
    schema = section.read("schema", _read_schema, _SCHEMA)
    return Server(section.need("url", _read_url), schema)


def _read_schema(value: object) -> str:
    name = read_name(value)
    if len(name.encode()) > _IDENTIFIER_MAX or name.startswith("pg_"):
        why = f"PostgreSQL has names of up to {_IDENTIFIER_MAX} bytes, and keeps pg_ to itself."
        raise Unfit(f"is no name of a schema: {written(name)}", why, f'"{_SCHEMA}"')
    return name


def _read_url(value: object) -> str:
    """Read the URL of one database on one server.

    A refusal quotes nothing of it: what is wrong may be that it holds a password.
    """
    url = read_text(value)
    try:
        doubt = _doubt(url)
    except ValueError:
        doubt = "is no URL of a server"
    if doubt is not None:
        why = "it says where the ledger is; PGPASSWORD or ~/.pgpass say who may write it."
        raise Unfit(doubt, why, f'"{_EXAMPLE}"')
    return url


def _doubt(url: str) -> str | None:
    """Return what is wrong with a URL.

    Raises:
        ValueError: it is none.
    """
    parts = urlsplit(url)
    options = parse_qsl(parts.query, True, strict_parsing=True) if parts.query else []
    keys = [key for key, _ in options]
    elsewhere = [value for key, value in options if key == "host" and value[:1] != "/"]
    if parts.password is not None or "password" in keys:
        return "holds a password"
    if not url.startswith(_SCHEMES) or parts.fragment:
        return "is no URL of a server"
    if not url.isascii() or not url.isprintable() or " " in url or parts.port == 0:
        return "is no URL of a server"
    if not parts.path[1:] or "/" in parts.path[1:]:
        return "names no database"
    if "," in parts.netloc or elsewhere or len(set(keys)) < len(keys):
        return "names more than one server"
    if not _OPTIONS.issuperset(keys):
        return "says more than how a server is reached"
    return None

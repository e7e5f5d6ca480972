"""A process that answers questions about the catalogue.

It is told the schema as it begins, opens no file, and is shut out of all of them.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any, BinaryIO

from dpquery.client.wire_format import arrow_bytes, loads
from dpquery.server.catalogue.duckdb_catalogue import Broken, Twin
from dpquery.server.catalogue.policy_tables import from_json
from dpquery.server.catalogue.refusals import Refused, failed, unsupported
from dpquery.server.sandbox import confine, limit, limit_processor
from dpquery.server.worker_messages import (
    Reply,
    Request,
    packed,
    read_frame,
    request_of,
    tag_of,
)

MEMORY = 2 << 30
"""Bytes of addresses: a twin holds 200 MB at most, and libraries take the most of it."""


def answer(twin: Twin, request: Request) -> Reply:
    """Answer one question, or say why not."""
    given = request.arguments or {}
    text, oids, user = given["text"], given["oids"], request.analyst
    try:
        if request.do == "describe":
            found, schema = twin.describe(text, oids, user)
            return Reply(
                "answered", tag=json.dumps(found), body=arrow_bytes(schema.empty_table())
            )
        values = loads(given["values"].encode())
        rows = twin.ask(text, oids, values, user, given["settings"])
        return Reply("answered", tag="SELECT", body=arrow_bytes(rows))
    except Refused as refused:
        return failed(refused)
    except Broken:
        raise
    except (Exception, MemoryError):  # noqa: BLE001 - whatever trips over it, it is refused
        return failed(unsupported())


def serve(
    requests: BinaryIO, replies: BinaryIO, seconds: float, *, unplugged: bool = False
) -> None:
    """Make the twin of the schema that comes first, and answer what comes after it."""
    first = read_frame(requests)
    if first is None:
        return
    given = request_of(first[0]).arguments or {}
    limit(MEMORY)
    confined = confine((), (), network=False)  # before there are threads, which would stay free
    twin = Twin(from_json(given["tables"]))
    reply = Reply("answered", tag=tag_of(confined=confined, unplugged=unplugged))
    while True:
        replies.write(packed(reply))
        replies.flush()
        frame = read_frame(requests)
        if frame is None:
            return
        limit_processor(seconds)
        reply = answer(twin, request_of(frame[0]))


def main(settings: Mapping[str, Any], *, unplugged: bool) -> None:
    """Answer the questions of the server that has started this process."""
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is no reply
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.disable()  # sqlglot remarks on statements
    serve(requests, replies, settings["seconds"], unplugged=unplugged)

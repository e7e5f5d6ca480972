"""Where a ledger is: in memory, in a file, or on a PostgreSQL server."""

from __future__ import annotations

import os
import re
import tempfile
from hashlib import sha256
from pathlib import Path

from dpquery.policy.document import Section, Unfit, written
from dpquery.policy.files import unlinked
from dpquery.policy.keys import LEDGER
from dpquery.policy.model import LedgerSettings, Server

_SERVER = re.compile(r"^postgres(ql)?:|://|\b(host|dbname|password) *=")
"""What no file of one's own is called: a server is meant, if not always in a URL."""


def read_ledger(section: Section) -> LedgerSettings:
    """Read `[ledger]`, all of which may be absent.

    Raises:
        PolicyInvalid: DPQ603, DPQ604, or DPQ607 where both a file and a server are named, or
            one file has two uses.
    """
    stated = LEDGER.read(section)
    policy, schema = section.document.path, stated["schema"]
    mark = unlinked(policy.parent / stated["high_water"]) if stated["high_water"] else None
    if stated["url"] is not None:
        _require_apart(section, "high_water", mark, [policy])
        faults = policy.with_name(f"{policy.stem}.ledger.faults")
        return LedgerSettings(None, mark, Server(stated["url"], schema), faults)
    ledger = unlinked(policy.parent / (stated["path"] or f"{policy.stem}.ledger"))
    _require_apart(section, "path", ledger, [policy])
    _require_apart(section, "high_water", mark, [policy, ledger])
    if "high_water" in section:
        return LedgerSettings(ledger, mark)
    return LedgerSettings(ledger, _usual_mark(ledger), usual_mark=True)


def _require_apart(section: Section, key: str, file: Path | None, others: list[Path]) -> None:
    if file in others:
        why = "the ledger, its high-water mark and the policy are files of their own."
        unfit = Unfit("names a file with another use", why, "another name", code="DPQ607")
        raise section.refuse(key, unfit)


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
    if _SERVER.search(str(given)):
        url = LEDGER["url"].read(str(given))
        return LedgerSettings(None, server=Server(url, str(LEDGER["schema"].default)))
    return LedgerSettings(unlinked(Path(given)))

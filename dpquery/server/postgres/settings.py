"""What a connection has set: names that clients of PostgreSQL know, with what holds here."""

from __future__ import annotations

from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo

from dpquery import __version__
from dpquery.server.postgres.messages import Refused

VERSION = f"15.0 (dpquery {__version__})"
"""Clients choose by it what they ask of the catalogue."""
MOST, LONGEST = 100, 500
"""Settings of one connection, and characters of each."""
_REPORTED = {
    "server_version": "server_version", "server_encoding": "server_encoding",
    "client_encoding": "client_encoding", "application_name": "application_name",
    "default_transaction_read_only": "default_transaction_read_only",
    "in_hot_standby": "in_hot_standby", "is_superuser": "is_superuser",
    "session_authorization": "session_authorization", "datestyle": "DateStyle",
    "intervalstyle": "IntervalStyle", "timezone": "TimeZone",
    "integer_datetimes": "integer_datetimes",
    "standard_conforming_strings": "standard_conforming_strings",
}  # fmt: skip
"""What is told at the start, and where it changes, as it is spelled there."""
_FIXED = {
    "server_version": VERSION, "server_version_num": "150000", "server_encoding": "UTF8",
    "client_encoding": "UTF8", "in_hot_standby": "off", "is_superuser": "off",
    "integer_datetimes": "on", "standard_conforming_strings": "on", "datestyle": "ISO, MDY",
    "intervalstyle": "postgres", "bytea_output": "hex", "max_identifier_length": "63",
    "transaction_isolation": "serializable", "transaction_read_only": "on",
    "default_transaction_isolation": "serializable", "default_transaction_read_only": "on",
    "lc_collate": "C.UTF-8", "lc_ctype": "C.UTF-8",
}  # fmt: skip
"""What cannot be changed; a client that tries is left alone, where nothing depends on it."""
_FIRST = {
    "application_name": "", "timezone": "UTC", "search_path": '"$user", public',
    "extra_float_digits": "1", "client_min_messages": "notice", "statement_timeout": "0",
    "dp.eps": "", "dp.delta": "", "dp.refresh": "off",
}  # fmt: skip
_UTF8 = {"utf8", "unicode", "sqlascii", ""}
_UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "": 0.001}
_OWN = {"dp.eps", "dp.epsilon", "dp.delta", "dp.refresh"}


class Settings:
    """The settings of one connection."""

    def __init__(self, user: str) -> None:
        self._fixed = {**_FIXED, "session_authorization": user}
        self._set: dict[str, str] = {}
        self.zone: tzinfo = UTC

    def get(self, name: str) -> str | None:
        """Return what a setting is; None where there is none of that name."""
        known = self._set.get(name, _FIRST.get(name))
        return self._fixed.get(name, known)

    def set(self, name: str, value: str | None) -> tuple[str, str] | None:
        """Change one; return it as it is to be told, where clients want to know.

        Raises:
            Refused: the value cannot be, and answers would not be what the client expects.
        """
        if name.startswith("dp.") and name not in _OWN:
            remedy = "SET dp.eps = 0.5, SET dp.delta = 1e-6, SET dp.refresh = on"
            raise Refused.of("42704", "there is no such setting", remedy=remedy)
        letters = "".join(filter(str.isalnum, value or "")).lower()
        if name == "client_encoding" and letters not in _UTF8:
            raise Refused.of("22023", "texts are sent as UTF8 alone")
        if name in self._fixed:
            return self._told(name)
        if name == "timezone":
            self.zone = _zone_of(value or "UTC")
        if value is None:
            self._set.pop(name, None)
        elif len(value) > LONGEST or len(self._set) >= MOST:
            raise Refused.of("54000", "too much is set")
        else:
            self._set[name] = value
        return self._told(name)

    def clear(self) -> list[tuple[str, str]]:
        """Return to how it was at first; return what changed of what clients want to know."""
        names = [name for name in self._set if name in _REPORTED]
        self._set.clear()
        self.zone = UTC
        return [told for told in map(self._told, names) if told]

    def _told(self, name: str) -> tuple[str, str] | None:
        return (_REPORTED[name], self.get(name) or "") if name in _REPORTED else None

    @property
    def reported(self) -> list[tuple[str, str]]:
        """What is told at the start."""
        return [(spelled, self.get(name) or "") for name, spelled in _REPORTED.items()]

    @property
    def all(self) -> dict[str, str]:
        """Every setting, by its name."""
        return dict(sorted({**_FIRST, **self._set, **self._fixed}.items()))

    @property
    def notices(self) -> bool:
        """Whether the client wants to be told of what is no error."""
        told = (self.get("client_min_messages") or "").lower()
        return told not in ("warning", "error", "fatal", "panic")

    @property
    def seconds(self) -> float | None:
        """How long a statement may take, if the client says so."""
        text = (self.get("statement_timeout") or "0").strip()
        digits = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
        unit = text[len(digits) :].strip()
        if not digits.isascii() or not digits.isdigit() or len(digits) > 9:
            return None
        return int(digits) * _UNITS.get(unit, 0.001) or None


def _zone_of(name: str) -> tzinfo:
    try:
        return UTC if name.upper() == "UTC" else ZoneInfo(name)
    except (OSError, ValueError, LookupError):
        remedy = "SET TimeZone = 'Europe/Vienna'"
        raise Refused.of("22023", "this is no time zone that is known", remedy=remedy) from None

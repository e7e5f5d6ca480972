"""How statements about the catalogue are refused: by their own words, never by an engine's."""

from __future__ import annotations

from dpquery.server.worker_messages import Fault, Reply


class Refused(Exception):
    """A statement that is not answered, and why."""

    def __init__(self, sqlstate: str, text: str, remedy: str = "") -> None:
        super().__init__(text)
        self.fault = Fault("", sqlstate, text, text, remedy=remedy)


def unsupported() -> Refused:
    """Return that a statement is beyond what the catalogue answers."""
    text = "this question about the catalogue is not supported"
    return Refused("0A000", text, "SHOW TABLES and DESCRIBE tell what there is")


def unreadable() -> Refused:
    """Return that a statement cannot be read."""
    return Refused("42601", "this question about the catalogue cannot be read")


def no_relation(name: str) -> Refused:
    """Return that a relation does not exist, as PostgreSQL says it."""
    return Refused("42P01", f'relation "{_shown(name)}" does not exist')


def no_function(name: str) -> Refused:
    """Return that a function does not exist, as PostgreSQL says it."""
    return Refused("42883", f"function {_shown(name)} does not exist")


def no_type(name: str) -> Refused:
    """Return that a type does not exist, as PostgreSQL says it."""
    return Refused("42704", f'type "{_shown(name)}" does not exist')


def no_setting(name: str) -> Refused:
    """Return that a setting does not exist, as PostgreSQL says it."""
    return Refused("42704", f'unrecognized configuration parameter "{_shown(name)}"')


def mixed() -> Refused:
    """Return that a statement reads both the catalogue and the policy's tables."""
    text = "a statement reads either the catalogue or the tables of the policy, not both"
    return Refused("0A000", text)


def holds_no_rows() -> Refused:
    """Return that the twin was asked for rows, of which it has none."""
    return Refused("0A000", "rows are not listed: ask for aggregates of them")


def too_large() -> Refused:
    """Return that an answer has too many rows."""
    return Refused("54000", "this answer about the catalogue is too large")


def too_long() -> Refused:
    """Return that a statement took too long."""
    return Refused("57014", "this question about the catalogue took too long and was stopped")


def failed(refused: Refused) -> Reply:
    """Return a refusal as what is replied."""
    return Reply("refused", fault=refused.fault)


def _shown(name: str) -> str:
    return "".join(one for one in name[:63] if one.isprintable())

"""A policy that does not fit its files is told when a session opens, before any charge.

What is compared is names and types of columns: a public fact of the data owner's files, which
no row decides. Neighbouring data are in files of the same schema, so that sessions over both
open, or both do not, with the same words. Counts and statistics, which stand in the same
footers, are not looked at (I1). A DuckDB file beside which changes wait to be written cannot be
opened without reading these, and they are rows: such a table is compared by its scan alone.
"""

from __future__ import annotations

from dpquery.engine.base import FaultLog
from dpquery.engine.files import DataChanged, files_of
from dpquery.errors import Diagnostic, PolicyInvalid
from dpquery.policy.fit import Misfit, file_misfits
from dpquery.policy.model import DatabaseTable, Policy, Table

__all__ = ["misfits_of", "require_fit"]


def misfits_of(table: Table) -> list[Misfit]:
    """Return how the schema of a private table differs from the policy, for the owner."""
    if isinstance(table.source, DatabaseTable):
        from dpquery.engine.duckdb.fit import misfits_in_file

        return misfits_in_file(table)
    return file_misfits(table)


def require_fit(policy: Policy, log: FaultLog) -> None:
    """Hold the schemas of all private tables against the policy.

    Raises:
        PolicyInvalid: DPQ612 a table differs. Which one is said, and of one's own files how.
    """
    for table in policy.tables.values():
        told = [] if table.public or _unwritten(table) else [*map(str, misfits_of(table))]
        if told and policy.published:
            log.note_once(DataChanged(f"{table.name}: {'; '.join(told)}"))
            raise _unfit(table, policy)
        if told:
            raise _unfit_own(table, told)


def _unwritten(table: Table) -> bool:
    """Say whether changes of a database wait beside its file."""
    return isinstance(table.source, DatabaseTable) and len(files_of(table)) > 1


def _unfit(table: Table, policy: Policy) -> PolicyInvalid:
    """Refuse in words that are the same whatever differs."""
    diagnostic = Diagnostic(
        "DPQ612",
        f"the files of the table {table.name} do not hold what the policy says",
        why=("its queries would be charged and then fail, so no session is opened.",),
        remedy=(f"dpquery policy check {policy.name}", "tells the data owner what differs"),
    )
    return PolicyInvalid(diagnostic, policy.name)


def _unfit_own(table: Table, told: list[str]) -> PolicyInvalid:
    """Refuse one's own files, of which the first one's schema has become the policy."""
    diagnostic = Diagnostic(
        "DPQ612",
        f"the files of the table {table.name} do not have the same columns",
        why=("the first file says which columns there are, and of what type.", *told[:8]),
        remedy=("leave out the files that differ, or write them with the same columns",),
    )
    return PolicyInvalid(diagnostic)

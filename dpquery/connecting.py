"""`dpquery.connect`: from a policy file, one's own files, or a server, to a session.

Nothing private is read here: of an ad-hoc file the schema, which is policy from then on.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpquery.client.remote import AnySession, RemoteSession
from dpquery.client.server_connection import SCHEMES, unfit
from dpquery.core.privacy_loss import Loss
from dpquery.errors import listed, nearest, shown
from dpquery.policy.adhoc import Paths, Rows, adhoc_policy, read_argument, unsuited
from dpquery.policy.load import load_policy
from dpquery.policy.model import Policy
from dpquery.policy.toml_keys import BUDGET

if TYPE_CHECKING:
    from dpquery.session import Session

DEFAULT_ANALYST = "default"


def connect(  # noqa: PLR0913 - the arguments are the interface, all but one by name
    source: Rows | Mapping[str, Rows],
    *,
    table: str | None = None,
    analyst: str | None = None,
    epsilon: object = None,
    delta: object = None,
    unit: str | Mapping[str, str | None] | None = None,
    rows_per_unit: int | Mapping[str, int] | None = None,
    max_rows_contributed: object = None,
    bounds: Mapping[str, Sequence[object]] | None = None,
    keys: Mapping[str, Sequence[object]] | None = None,
    public: Paths | Mapping[str, Paths] | None = None,
    neighbours: str | None = None,
    ledger: str | Path | None = None,
    password: str | None = None,
) -> AnySession:
    """Open a session.

    Args:
        source: a policy (`policy.toml`), a Parquet file, a list of them, a folder, a data frame
            (pandas, polars, Arrow, or a relation of DuckDB), or tables by name; or the URL of
            a server of dpquery (`postgresql://alice@host:5433/`).
        table: the table's name, where it is not the file's; a data frame is `df` without it.
        analyst: who asks, where the policy lists analysts.
        epsilon: this session's own ceiling; for one's own files, the budget.
        delta: the same for delta.
        unit: for one's own files, the column that says which person a row belongs to.
        rows_per_unit: 1 where each unit has one row, or a number by table; verified when a
            file is first read.
        max_rows_contributed: for one's own files, how many rows of one unit count, unless a
            query says otherwise; "auto" has each query find that. One number, or one by table.
        bounds: for one's own files, lowest and highest value by column: `"salary"`, or
            `"people.salary"` where several tables have one.
        keys: for one's own files, the groups that may appear, by column in the same way.
        public: for one's own files, files beside them that hold nobody's data, as `source`.
        neighbours: for one's own files, "add-remove" or "substitute".
        ledger: for one's own files, where charges are kept: a file, or the URL of a PostgreSQL
            database (`postgresql://host/database`); in memory without it.
        password: for a server, where neither PGPASSWORD nor ~/.pgpass has it.

    Raises:
        PolicyInvalid: DPQ6xx, the policy, the ledger or an argument needs mending.
        ServerUnusable: DPQ8xx, the server cannot be asked.
    """
    own: dict[str, Any] = {
        "table": table,
        "unit": unit,
        "rows_per_unit": rows_per_unit,
        "max_rows_contributed": max_rows_contributed,
        "bounds": bounds,
        "keys": keys,
        "public": public,
        "neighbours": neighbours,
        "ledger": ledger,
    }
    if isinstance(source, str) and source.startswith(SCHEMES):
        _nothing_but({"epsilon": epsilon, "delta": delta, **own})
        return RemoteSession(source, analyst=analyst, password=password)
    if password is not None:
        why = "what is asked here is read by this process, as whoever started it."
        raise unfit("password= is for a server", why, "leave it out")
    return _opened(source, analyst, epsilon, delta, own)


def _opened(
    source: Any, analyst: str | None, epsilon: object, delta: object, own: Mapping[str, Any]
) -> Session:
    """Open a session in this process."""
    from dpquery.database import Database  # loads the engine, which no client of a server needs
    from dpquery.session import Session

    if isinstance(source, str | Path) and Path(source).suffix.lower() == ".toml":
        _nothing_of(own)
        policy = load_policy(Path(source))
        who, ceiling = analyst_of(policy, analyst), _ceiling(policy, epsilon, delta)
        return Session(Database(policy), who, ceiling)
    _nobody_else(analyst)
    given = {name: value for name, value in own.items() if value is not None}
    policy, notes = adhoc_policy(
        source, epsilon=epsilon, delta=0 if delta is None else delta, **given
    )
    return Session(Database(policy), DEFAULT_ANALYST, None, notes)


PRACTICE = "practice: rows are made up from the policy; nothing is charged"


def practice(
    source: str | Path,
    *,
    analyst: str | None = None,
    epsilon: object = None,
    delta: object = None,
    **own: object,
) -> Session:
    """Open a session over rows that are made up from a policy: the data are not opened.

    Everything else is as under `connect`: what is asked, refused and paid. The budget is that
    of the policy, and kept in memory; each answer says that it is practice.

    Args:
        source: a policy (`policy.toml`); the files of its private tables need not be there.
        analyst: who asks, where the policy lists analysts.
        epsilon: this session's own ceiling.
        delta: the same for delta.
        own: nothing; what `connect` takes beside these is decided by the policy.

    Raises:
        PolicyInvalid: DPQ6xx, the policy or an argument needs mending.
    """
    from dpquery.database import Database
    from dpquery.session import Session

    if not (isinstance(source, str | Path) and Path(source).suffix.lower() == ".toml"):
        raise unsuited(
            "practice needs a policy",
            "its rows are made of what a policy says of tables, and of no data.",
            "dpquery practice policy.toml",
            "a policy is drafted by dpquery policy init FILE",
        ).at("")
    _nothing_of(own)
    policy = load_policy(Path(source), private=False)
    who, ceiling = analyst_of(policy, analyst), _ceiling(policy, epsilon, delta)
    return Session(Database.for_practice(policy), who, ceiling, [PRACTICE])


def _nothing_of(own: Mapping[str, object]) -> None:
    """Refuse arguments that the policy file decides."""
    given = next((name for name, value in own.items() if value is not None), None)
    if given is not None:
        raise unsuited(
            f"{given}= cannot be given beside a policy",
            "the policy decides what is protected and how; a session can only ask for less.",
            f"state {given} in the policy file, or leave it out here",
        ).at("")


def _nothing_but(given: Mapping[str, object]) -> None:
    """Refuse arguments that a server's owner decides on."""
    name = next((name for name, value in given.items() if value is not None), None)
    if name is not None:
        why = "policy, limits and ledger are the server's; a session there asks under them."
        raise unfit(f"{name}= cannot be given to a server", why, "leave it out")


def _nobody_else(analyst: str | None) -> None:
    """Refuse an analyst's name where no policy lists any."""
    if analyst is not None and shown(analyst) != shown(DEFAULT_ANALYST):
        raise unsuited(
            "analyst= cannot be given without a policy",
            "a policy lists analysts and their budgets; one's own files have one analyst.",
            "leave out analyst=, or write a policy: dpquery policy init",
        ).at("")


def analyst_of(policy: Policy, name: str | None) -> str:
    """Return who asks.

    Raises:
        PolicyInvalid: DPQ608 the policy does not list them.
    """
    known = list(policy.analysts) or [DEFAULT_ANALYST]
    if name is None and not policy.analysts:
        return DEFAULT_ANALYST
    if not isinstance(name, str) or name not in known:
        near = nearest(name if isinstance(name, str) else "", known)
        meant = near or known[0]
        missing = "this policy lists its analysts, and none was named"
        raise unsuited(
            missing if name is None else f"the policy lists no analyst {shown(name)}",
            "each analyst has a budget of their own, so a session has to know whose it spends.",
            f"--analyst {shlex.quote(meant)}, in Python analyst={meant!r}",
            f"analysts here: {listed(known, near)}",
        ).at("")
    return name


def _ceiling(policy: Policy, epsilon: object, delta: object) -> Loss | None:
    """Read the session's own ceiling; what is not given is the policy's."""
    if epsilon is None and delta is None:
        return None
    limit = policy.budget.limit
    read = partial(read_argument, code="DPQ608")
    return Loss(
        limit.epsilon if epsilon is None else read(BUDGET["epsilon"], epsilon),
        limit.delta if delta is None else read(BUDGET["delta"], delta),
    )

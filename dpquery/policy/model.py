"""What the data owner declares: tables, units, bounds, public keys, budgets.

Everything here is public and fixed before any data is read (I1). `load.py` and `adhoc.py` make
it, with every doubt refused; nothing else does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from fractions import Fraction
from os.path import relpath
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from dpquery.core.identity_text import Fact, identity, record
from dpquery.core.privacy_loss import HALF, Ceiling, Loss, Neighbours
from dpquery.core.types import DAY, UTC_ZONE, Interval, Kind, RowLimit, Type, ordinal
from dpquery.ir.expr import Scalar
from dpquery.ir.query import Above

Value = int | Fraction | str | bool | date | datetime | time
"""A public value in the policy: exact, never a float."""

MAIN = "main"
"""The schema of a DuckDB file in which tables are unless somebody says otherwise."""
MAX_TEXT = 256
"""Characters of a text that count, unless the policy says otherwise."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Lowest and highest value of a column, chosen without looking at the data."""

    low: int | Fraction | date | datetime | time
    high: int | Fraction | date | datetime | time

    def identity(self) -> str:
        """Return the name of the bounds in the ledger."""
        return record("Bounds", low=self.low, high=self.high)


@dataclass(frozen=True, slots=True)
class Column:
    """A column that analysts may name."""

    name: str
    type: Type
    bounds: Bounds | None = None
    keys: tuple[Value, ...] | None = None
    """Values that may appear as groups; they do not limit what rows contain."""
    grid: Fraction | None = None
    """Step of a double's grid where the policy states one."""
    max_length: int = MAX_TEXT
    per_unit: int | None = None
    """Of how many of its own values a unit's rows count, the first ones; None: of all."""
    parts_rows: bool = False
    """Whether its values part the rows of a unit, for queries that weigh by the table."""
    null_group: bool = True
    """Whether NULL is a group where the column is one; otherwise such rows are in none."""
    description: str | None = None
    """What it means, for analysts to read: no answer depends on it."""
    converted: bool = False
    """Whether the files hold it in another type, so that each value is converted when read."""
    path: tuple[str, ...] = ()
    """Where it is inside of structures, by the name of each; otherwise empty."""
    exact: bool = False
    """Whether what its type does not hold is NULL: the nearest one would be another unit."""

    def identity(self) -> str:
        """Return the name of the column in the ledger: all that decides which part a row is in.

        What else the policy says of a column may change, and nobody's budget with it.
        """
        several = self.per_unit is not None and self.per_unit > 1
        return record(
            "Column",
            name=self.name,
            type=self.type,
            bounds=self.bounds,
            keys=self.keys,
            grid=self.grid,
            max_length=self.max_length,
            per_unit=self.per_unit if several else self.per_unit is not None,
        )

    @property
    def parts(self) -> tuple[Value, ...]:
        """The values that part a table, in the policy's order; all others are one more part."""
        return (False, True) if self.type.kind is Kind.BOOLEAN else self.keys or ()

    @property
    def interval(self) -> Interval:
        """The range after the clamp, of dates in days; unknown ends where none is declared."""
        if self.bounds is not None:
            return Interval(_place(self.bounds.low), _place(self.bounds.high))
        if self.type.kind is Kind.INTEGER:
            return Interval(Fraction(-(2**63)), Fraction(2**63 - 1))
        if self.type.kind is Kind.DECIMAL:
            largest = Fraction(10**self.type.precision - 1, 10**self.type.scale)
            return Interval(-largest, largest)
        if self.type.kind is Kind.TIME:
            return Interval(Fraction(0), Fraction(DAY - 1))
        return Interval(None, None)


def _place(value: int | Fraction | date | time) -> Fraction:
    return Fraction(ordinal(value) if isinstance(value, date | time) else value)


@dataclass(frozen=True, slots=True)
class Parquet:
    """Files that say themselves what their columns are."""

    partitions: tuple[str, ...] = ()
    """Columns whose values are names of folders, as in `year=2024/`."""


@dataclass(frozen=True, slots=True)
class Csv:
    """Files of lines, each of which is one row of fields."""

    delimiter: str = ","
    quote: str = '"'
    """What stands around fields that hold delimiters; empty: nothing does."""
    null: str = ""
    """What stands for NULL, where it is not quoted."""
    fields: tuple[str, ...] | None = None
    """The names of the fields; None: the first line of each file has them."""


@dataclass(frozen=True, slots=True)
class Json:
    """Files of lines, each of which is one object."""


Format = Parquet | Csv | Json
"""How rows stand in files."""


@dataclass(frozen=True, slots=True)
class Files:
    """Files in the policy's order, globs already expanded, absolute."""

    paths: tuple[Path, ...]
    format: Format = Parquet()


@dataclass(frozen=True, slots=True)
class DatabaseTable:
    """A table or a view of a DuckDB file, opened for reading only."""

    database: Path
    table: str
    schema: str = MAIN

    def __str__(self) -> str:
        return self.table if self.schema == MAIN else f"{self.schema}.{self.table}"


@dataclass(frozen=True, slots=True)
class External:
    """A table that a library of its own reads, of which the engine copies each state."""

    kind: str
    """What opens it: a name in `open_external.py`."""
    place: str
    """An absolute path, or a URL."""
    table: str = ""
    """Of a database: the name of a table, with that of its schema before a dot."""

    @property
    def name(self) -> str:
        """The last part of the place, for messages."""
        return self.table or self.place.rstrip("/").rpartition("/")[2]

    @property
    def root(self) -> str:
        """What holds it in all its states, with the name of the table there."""
        of_one_state = self.kind == "iceberg" and self.place.endswith(".json")
        place = self.place.rsplit("/", 2)[0] if of_one_state else self.place
        return f"{place} {self.table.lower()}".rstrip()


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """Rows in memory: one that holds the same is another, and no message shows it."""

    rows: Any = field(repr=False)
    """An Arrow table."""


Source = Files | DatabaseTable | External | Frame
"""Where the rows of a table are."""


@dataclass(frozen=True, slots=True)
class Through:
    """The way to the unit of rows that store none: through a key of another table.

    A unit *claims* a key where it has a row with that key in the other table. A row here
    belongs to each unit that claims what its column holds: it counts once for each of them, and
    never where it holds NULL or a key that nobody claims. The other table may have a way of its
    own; its rows are then those of the units at the end of that.

    **Unit-locality.** Write T* for the rows (r, u) that a scan of the table T gives, u being
    the owner. Where T stores its unit, T* has the rows whose unit is u. Here it is
    { (r, u) : r in T, (column of r, u) in C }, with the set of claims
    C = { (key of s, u) : (s, u) in S* } of the other table S. The base rows of u are its rows
    in the T* of all tables, and two databases are neighbours if those of every other unit are
    equal. That is what happens when u comes or goes: its rows in the tables that store the unit
    do, and its claims with them. By induction over the way, for v other than u the claims of v
    are made of rows of v in S*, which stay; and which r of T they meet is up to the column of r
    and to v alone. So v's rows in T* stay, and u's come or go, all of them. Everything above a
    scan builds on nothing else. Under `substitute` u's rows go and another unit's come, in the
    same way.

    Rows of T that u alone claimed may stay when u goes: they dangle, and are nobody's. A row
    that v claims as well stays v's. Were it counted for one claimant only, or shared out among
    them by weight, its part for v would move when u goes, and v's rows would depend on u. So
    each claimant has it whole, and the noise covers what one of them adds. What is protected is
    that u has the row, not what the row says of v.

    C is a set: two rows of u in S with one key are one claim, so that u has a row of T at most
    once, and no more rows than T has. How many rows u has in T is up to the keys, not to how
    many rows u has in S: with one row per unit there it can have many here. So
    `rows_per_unit` and `max_rows_contributed` are the table's own, and `rows_per_unit = 1` is
    verified on T*. The number of units is at most that of the rows of the table at the end.
    """

    column: str
    """Of the table whose way it is."""
    table: Table
    """The other table, with its key alone for a column."""
    key: str
    type: Type
    """Of column and key."""

    def __str__(self) -> str:
        rest = "" if self.table.through is None else f", {self.table.through}"
        return f"{self.column} = {self.table.name}.{self.key}{rest}"


@dataclass(frozen=True, slots=True)
class Table:
    """A table that analysts may name."""

    name: str
    source: Source
    written: tuple[str, ...]
    """The paths as the owner wrote them: a query may quote one of these instead of the name."""
    columns: dict[str, Column]
    """Empty for a public table without listed columns: the file's own count."""
    unit: str | None = None
    """The column that says which privacy unit a row belongs to; None: each row is its own.

    Where another table says it, the column is at the end of the way there.
    """
    unit_type: Type | None = None
    """None where it is not declared: integer or text, whichever the file has."""
    single: bool = False
    """One row per unit, declared by `rows_per_unit = 1` and verified inside the first open."""
    max_rows_contributed: RowLimit = None
    """Rows of a unit that count in full; "auto" has that found, None leaves it to queries."""
    max_groups_contributed: int | None = None
    """Groups in which a unit counts in full where units are counted; None: as many as rows."""
    public: bool = False
    unique: tuple[str, ...] = ()
    """Columns of a public table whose values, taken together, occur once."""
    zone: str = UTC_ZONE
    """The policy's time zone, in which instants are shown and looked up in the calendar."""
    through: Through | None = None
    """The way to the unit, where the table does not store it."""
    lists: dict[str, Column] = field(default_factory=dict)
    """Columns of lists, whose values rows are made of; what else is said is of the values."""

    together: tuple[tuple[str, Type], ...] = ()
    """The columns that are the unit together, where several are: `unit` then lists their names.

    Like `unit_type`, it is that of the table at the end of a way.
    """

    @property
    def held(self) -> dict[str, Column]:
        """All that the policy names of the files, in columns."""
        return {**self.columns, **self.lists}

    @property
    def unit_types(self) -> tuple[Type, ...] | None:
        """The types of units, of which one domain has the same; None where it is not said."""
        if self.together:
            return tuple(type_ for _, type_ in self.together)
        return None if self.unit_type is None else (self.unit_type,)

    @property
    def owner(self) -> str | None:
        """What the engine calls the column that says whose a row is.

        Integers and texts stand as they are stored. Of other types, and of several columns,
        there is one text for each unit, under a name that is no column's: so that every
        operator, however it compares, tells units apart alike.
        """
        plain = self.unit_type is None or self.unit_type.kind in {Kind.INTEGER, Kind.TEXT}
        return self.unit if plain and not self.together else f"unit:\n{self.unit}"

    @property
    def way(self) -> tuple[Table, ...]:
        """The tables that say whose the rows are: itself, and those it goes through."""
        return (self,) if self.through is None else (self, *self.through.table.way)

    @property
    def parting(self) -> Column | None:
        """The column whose values part the units of this table, or their rows; at most one."""
        columns = self.columns.values()
        return next(
            (column for column in columns if column.per_unit or column.parts_rows), None
        )

    @property
    def parts_per_unit(self) -> int | None:
        """Of how many parts a unit has rows, as scans see them; None where it can be any."""
        column = self.parting
        if column is None:
            return None
        return 1 if self.single or self.unit is None else column.per_unit


def derived_table(name: str) -> Table:
    """Return what a query makes of public tables, as a public table that no policy names."""
    return Table(name, Files(()), (), {}, public=True)


@dataclass(frozen=True, slots=True)
class PolicyBudget:
    """Ceilings on loss."""

    ceiling: Ceiling
    max_epsilon_per_query: Fraction | None = None
    share: Fraction = HALF
    """The part of each delta, of analysts and sessions too, at which rho is converted."""
    shared_answers: bool = False
    """Whether analysts are given one another's answers, at no charge."""

    @property
    def limit(self) -> Loss:
        """The whole as epsilon and delta."""
        return self.ceiling.limit


@dataclass(frozen=True, slots=True)
class Server:
    """A PostgreSQL server and where in it a ledger stands; no password is among it."""

    url: str
    schema: str

    def __str__(self) -> str:
        parts = urlsplit(self.url)
        place = parts.netloc.rpartition("@")[2] + parts.path
        return f"postgresql://{place}, schema {self.schema}"


@dataclass(frozen=True, slots=True)
class LedgerSettings:
    """Where the ledger stands: in a file, on a server, or without both in memory only."""

    path: Path | None
    high_water: Path | None = None
    server: Server | None = None
    log: Path | None = None
    """Where the owner reads why scans failed, if that is not beside the ledger."""
    usual_mark: bool = False
    """Whether the policy names no place for the mark: where it cannot be written, none is."""

    @property
    def faults(self) -> Path | None:
        """Where the owner reads why scans failed: a file beside the ledger."""
        return self.log or (self.path and self.path.with_name(self.path.name + ".faults"))


@dataclass(frozen=True, slots=True)
class ScanLimits:
    """What one query of the engine over private tables may take, and how often one may fail."""

    seconds: int = 600
    memory: str | None = None
    """As DuckDB reads it: `4GB`; None: four fifths of the machine's."""
    max_failures: int = 5
    """How many statements of one analyst may fail within a day before the analyst is frozen."""
    answer_times: Fraction | None = None
    """Seconds at whose multiples a server sends what it answers; None: when it is ready."""


@dataclass(frozen=True, slots=True)
class Price:
    """What each statement may spend on the calls that state nothing themselves."""

    epsilon: Fraction | None = None
    delta: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """The owner's whole file."""

    name: str
    """The file, or what was connected to, for messages."""
    neighbours: Neighbours
    budget: PolicyBudget
    tables: dict[str, Table]
    ledger: LedgerSettings
    analysts: dict[str, Ceiling] = field(default_factory=dict)
    """Empty: there is one analyst, "default", who has the whole budget."""
    directory: Path = Path()
    """Where the paths start that the owner wrote."""
    limits: ScanLimits = field(default_factory=ScanLimits)
    price: Price = field(default_factory=Price)
    """Of a statement that says nothing, in a session that says nothing."""
    zone: str = UTC_ZONE
    """The time zone in which instants are shown and looked up in the calendar."""
    unit: str | None = None
    """Whose rows all private tables hold, under whatever names; None: under equal names."""
    published: bool = True
    """Whether an owner says when data are another version; of one's own files nobody does."""

    @property
    def single(self) -> frozenset[str]:
        """The tables that have at most one row of a unit."""
        tables = self.tables.values()
        return frozenset(one.name for one in tables if one.single or one.unit is None)


# Where tables are, in words that stay the same when all of it is moved together.


def place_of(table: Table, policy: Policy) -> tuple[Fact, ...]:
    """Return where a table is, seen from the ledger: one may serve policies of several places.

    A glob is as the owner wrote it: which files there are now is up to the data. With it goes
    where those tables are that say whose its rows are, and by which columns.
    """
    place = _own_place(table, policy)
    if table.through is None:
        return place
    return (
        *place,
        table.through.column,
        table.through.key,
        *place_of(table.through.table, policy),
    )


def _own_place(table: Table, policy: Policy) -> tuple[Fact, ...]:
    match table.source:
        case DatabaseTable(database, name, schema):
            place = from_ledger(database, policy), name
            return place if schema == MAIN else (*place, schema)
        case External(_, url, name) if name:
            return (url if "://" in url else from_ledger(Path(url), policy)), name
        case Frame():
            return "memory", table.name
        case Files(paths) if not table.written:
            return tuple(from_ledger(path, policy) for path in paths)
    return from_ledger(policy.directory, policy), table.written


def place_name(table: Table, policy: Policy) -> str:
    """Write where a table is as the ledger does that keeps what stood there."""
    return identity(place_of(table, policy))


def from_ledger(path: Path, policy: Policy) -> str:
    """Return the way from the ledger to a path, the same however that is spelled."""
    ledger = policy.ledger.path
    return relpath(path, Path("/") if ledger is None else ledger.parent)


LONGEST_PUBLIC = 2**12
"""Characters of a public text that private rows may be joined to: a longer one is NULL."""


class PublicFacts(Protocol):
    """What the stages before `open` may ask of public tables and their engine (I1)."""

    def columns(self, table: str) -> Sequence[str]:
        """Return the columns of a public table, in order."""

    def types(self, table: str) -> Mapping[str, Type]:
        """Return the columns of a public table whose types a policy can name, in order."""

    def values(self, table: str, column: str) -> tuple[Scalar, ...] | None:
        """Return the different values of a column, but for NULL; None of very many."""

    def tuples(
        self, table: str, columns: Sequence[str]
    ) -> Sequence[tuple[Scalar | float | None, ...]] | None:
        """Return the different rows of some columns, as private rows meet them.

        None where there are very many.
        """

    def nulls(self, table: str, column: str) -> bool:
        """Return whether a column has NULL in some row."""

    def height(self, table: str) -> int:
        """Return how many rows a public table has."""

    def most_equal(self, table: str, columns: tuple[str, ...]) -> int:
        """Return how many rows of a public table have equal values of some columns, at most."""

    def longest(self, table: str, column: str) -> int:
        """Return how many characters the longest value of a column has, written as a text."""

    def relation(self, table: str) -> str:
        """Return the engine's own name of a public table."""

    def derived(self, sql: str) -> str | None:
        """Return the name of a table of a query over public tables; None if it is too large.

        It is a public table from then on; its name says what rows it has.
        """

    def listed(self, above: Above) -> Sequence[object] | None:
        """Return the values of a query of one column over public tables; None if it fails."""

    def matches_with(self, pattern: str) -> bool:
        """Say whether a pattern in the engine's SQL can be used, as far as it is a constant."""

    def accepts(self, above: Above, released: Sequence[Mapping[str, Type]]) -> bool:
        """Return whether a query fits the types of the tables it would be run over."""

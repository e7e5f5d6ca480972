"""Every key of a policy file: where it stands, what it takes, why it is there.

Loading, refusals and the reference page all come from these tables, so a key is added here and,
where the policy has to remember it, as a field in `model.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dpquery.core.privacy_loss import Neighbours
from dpquery.core.types import UTC_ZONE, Kind, Type
from dpquery.policy import value_parsers as parsers
from dpquery.policy.document import Section, Unfit, contradiction, toml_key
from dpquery.policy.model import MAX_TEXT, ScanLimits
from dpquery.policy.unit_remedies import unit_line
from dpquery.policy.value_parsers import Reader


@dataclass(frozen=True, slots=True)
class Beside:
    """Another key of the same section that has to be there, or must not be."""

    key: str
    why: str
    remedy: str = "leave one of them out"
    unless: object = None
    """The value with which a key may stand beside one that it excludes."""
    instead: str = ""
    """Another key that does as well where one is needed."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of which one has to be there, or none may be."""
        return (self.key, self.instead) if self.instead else (self.key,)


@dataclass(frozen=True, slots=True)
class Kinds:
    """The types of columns to which a key applies."""

    of: frozenset[Kind]
    why: str
    remedy: str = "leave it out"
    lists: bool = True
    """Whether it applies to columns of lists, of whose values it is said then."""

    def require(self, type_: Type, remedy: str = "") -> None:
        """Refuse a column of another type."""
        if type_.kind not in self.of or (type_.listed and not self.lists):
            what = f"does not apply to a column of type {type_}"
            raise contradiction(what, self.why, remedy or self.remedy)


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a section."""

    name: str
    reader: Reader[Any]
    example: str
    """A value of it as TOML."""
    says: str
    """What it is for, in a sentence that begins with its name."""
    default: object = None
    costs: str = ""
    """What it takes: privacy, noise or time, or nothing."""
    field: str = ""
    """What the model calls it, if not by its name."""
    known: tuple[str, ...] = ()
    """Fields of keys above that the reader is told."""
    needs: tuple[Beside, ...] = ()
    excludes: tuple[Beside, ...] = ()
    kinds: Kinds | None = None
    public: bool = False
    """Whether columns of public tables have it, too."""
    described: bool = False
    """Whether DESCRIBE shows it."""

    @property
    def to(self) -> str:
        """The field of the model."""
        return self.field or self.name

    @property
    def why(self) -> str:
        """What it is for, as the reason of a refusal."""
        return f"{self.name} {self.says}."

    @property
    def line(self) -> str:
        """An example as an owner would write it."""
        return f"{self.name} = {self.example}"

    def read(self, value: object, known: tuple[object, ...] = ()) -> Any:
        """Read a value of this key, wherever it was written; remedies are lines of a policy."""
        try:
            return self.reader(value, *known)
        except Unfit as unfit:
            remedy = unfit.remedy or (f"{self.name} = {unfit.meant or self.example}",)
            raise Unfit(unfit.what, unfit.why or self.why, *remedy, code=unfit.code) from None


@dataclass(frozen=True, slots=True)
class Group:
    """The keys of one kind of section."""

    header: str
    """How the section begins, with names that an owner might choose."""
    says: str
    keys: tuple[Key, ...]
    inner: tuple[str, ...] = ()
    """Sections that stand under it."""

    @property
    def names(self) -> tuple[str, ...]:
        """All that may stand in such a section."""
        return (*(key.name for key in self.keys), *self.inner)

    def __getitem__(self, name: str) -> Key:
        return next(key for key in self.keys if key.name == name)

    def read(self, section: Section, *, public: bool = False) -> dict[str, Any]:
        """Read a section: each field of the model, by name.

        Raises:
            PolicyInvalid: DPQ603 an unknown key; DPQ604 a value that cannot be taken; DPQ607
                keys that contradict one another.
        """
        section.only(self.names)
        found: dict[str, Any] = {}
        for key in self.keys:
            found[key.to] = key.default
            if key.name in section:
                found[key.to] = section.read(key.name, _read, key, section, found, public)
        return found


def missing(key: Key, code: str = "DPQ607") -> Unfit:
    """Return the refusal of a section that lacks a key."""
    return Unfit(f"has no {key.name}", key.why, key.line, code=code)


def _read(key: Key, section: Section, found: Mapping[str, Any], public: bool) -> Any:
    """Read a key of a section, or refuse it where it has no meaning there."""
    own = section.values[key.name]
    if public and not key.public:
        why = "columns of a public table are shown as they are: not clamped, cut or rounded."
        raise contradiction("does not apply to a public table", why, "leave it out")
    # What is denied contradicts nothing, neither here nor in another key.
    said = {name for name, value in section.values.items() if value is not False}
    if key.name in said:
        if key.kinds is not None:
            key.kinds.require(found["type"])
        for other in key.excludes:
            if other.key in said and (other.unless is None or own != other.unless):
                what = f"cannot stand beside {toml_key(other.key)}"
                raise contradiction(what, other.why, other.remedy)
        for other in key.needs:
            if said.isdisjoint(other.keys):
                unit = other.key == "privacy_unit_column"
                remedy = unit_line(section) if unit else other.remedy
                raise contradiction(f"needs {other.key}", other.why, remedy)
    return key.read(own, tuple(found[name] for name in key.known))


# The formatter would give each argument a line of its own: as a table they can be compared.
# fmt: off
PRIVACY = Group("[privacy]", "What is protected.", (
    Key("neighbours", parsers.read_neighbours, '"add-remove"',
        "says whether the number of units is private (add-remove) or public (substitute)",
        default=Neighbours.ADD_REMOVE,
        costs="noise: under substitute a unit moves two groups in place of one"),
    Key("time_zone", parsers.read_zone, '"Europe/Berlin"', field="zone", default=UTC_ZONE,
        says="is where instants (timestamptz) are shown, and looked up in the calendar",
        costs="nothing"),
    Key("unit", parsers.read_name, '"customer"',
        "names the unit of the whole policy: the unit columns of all tables hold the same "
        "units, whatever they are called, and tables are joined on them",
        costs="nothing"),
))

BUDGET = Group("[budget]", "What all answers together may lose, for ever and for all analysts.",
(
    Key("epsilon", parsers.read_budget, "1",
        "is the privacy budget in all; there is no default, and 0 allows no answer",
        costs="privacy: odds that somebody is in the data change by e to the epsilon"),
    Key("rho", parsers.read_budget, "0.05",
        "limits the sum of rho (zCDP) in place of epsilon; 0 allows no answer",
        excludes=(Beside("epsilon", "under rho no epsilons are added up; under epsilon and "
                                    "delta, either sum may do."),),
        costs="privacy, as epsilon does, which it is converted to at a part of delta"),
    Key("delta", parsers.read_delta, "1e-7",
        "is the probability with which the promise may fail; it is 0 unless stated",
        costs="privacy: how likely it is that nothing is promised; far below 1 / the units"),
    Key("delta_for_conversion", parsers.read_delta, "5e-8",
        "is the part of delta at which rho is converted; the rest is for releases",
        costs="nothing: it divides delta"),
    Key("max_epsilon_per_query", parsers.read_budget, "0.5",
        "is the most that one query may cost",
        costs="noise: what a query may not spend"),
    Key("shared_answers", parsers.read_flag, "true", default=False,
        says="says whether analysts get one another's stored answers at no charge",
        costs="nothing: whoever asks sees what another has paid for"),
))
ANALYST = Group("[analysts.alice]",
    "The limit of one analyst, below that of the policy. Without `delta` an analyst may use "
    "all of the policy's. Where no analyst is listed, there is one: `default`.",
    (BUDGET["epsilon"], BUDGET["rho"], BUDGET["delta"]),
)

LIMITS = Group("[limits]", "What a query may take, and how often one may fail.", (
    Key("seconds", parsers.count(7 * 24 * 3600), "600", default=ScanLimits().seconds,
        says="is how long a scan may take; a longer one is stopped, and its charge stays",
        costs="time: what one scan may take of the machine"),
    Key("memory", parsers.read_memory, '"4GB"',
        "is what the engine may use to read private tables: four fifths of the machine's "
        "unless stated",
        costs="time: what does not fit is read anew, or fails"),
    Key("max_failures", parsers.count(100), "5", default=ScanLimits().max_failures,
        says="is after how many failed statements within 24 hours an analyst is frozen",
        costs="privacy: so many failures could tell of somebody"),
    Key("answer_times", parsers.read_step, '"100ms"',
        says="has a server send answers and failures at multiples of this time after they "
        "were asked; without it each is sent when it is ready",
        costs="time: half of it for each answer"),
))

QUERIES = Group("[queries]", "What each statement may spend on its plain aggregates.", (
    Key("epsilon", parsers.read_price, "0.1",
        "is shared by the plain aggregates of a statement, as AVG(salary), unless it says "
        "otherwise; without it they are refused",
        costs="privacy: each statement with plain aggregates spends it"),
    Key("delta", parsers.read_delta, "1e-8",
        "is what a statement may spend on finding groups: a hundredth of the budget's delta "
        "unless stated", needs=(Beside("epsilon", "delta is spent beside an epsilon."),),
        costs="privacy: each statement that finds groups spends it"),
))

SERVER = '"postgresql://db.example.org/privacy?sslmode=verify-full"'
_ONE_LEDGER = ("charges are added up in one place.", "one of url and path")
LEDGER = Group("[ledger]", "Where charges are stored: beside the policy unless stated.", (
    Key("path", parsers.read_text, '"policy.ledger"', "is the file of the ledger",
        excludes=(Beside("url", *_ONE_LEDGER), Beside("schema", *_ONE_LEDGER)),
        costs="nothing"),
    Key("high_water", parsers.read_mark, '"/var/lib/dpquery/policy.mark"',
        "is the file by which an older copy of the ledger is noticed; false turns it off",
        costs="nothing; without it an older copy of the ledger would give budget back"),
    Key("url", parsers.read_url, SERVER,
        "says where the ledger is; PGPASSWORD or ~/.pgpass say who may write it",
        costs="time: each charge waits for the server"),
    Key("schema", parsers.read_schema, '"dpquery"', default="dpquery",
        says="is the schema of the PostgreSQL database in which the ledger stands",
        needs=(Beside("url", "files have no schemas.", f"url = {SERVER}"),),
        costs="nothing"),
))

_NOBODYS = Beside("public", "a public table holds nobody's data, so it has no privacy unit.",
                  "leave out this key, or public = true")
_COLUMN = Beside("privacy_unit_column",
                 "without a unit column each row is its own privacy unit.")
_UNIT = replace(_COLUMN, instead="unit_through")
_WAY = '{ column = "order_id", table = "orders", key = "order_id" }'
_OF_LINES: dict[str, Any] = {
    "needs": (Beside("path", "only files have a format.", 'path = "people.csv"'),),
    "excludes": (Beside("public", "public files are read by DuckDB, as they are."),),
}
_ONE_ROW = Beside("rows_per_unit", "rows_per_unit says that each unit has one row.", unless=1)
_OF_UNITS: dict[str, Any] = {"needs": (_UNIT,), "excludes": (_NOBODYS,)}
_OF_ROWS: dict[str, Any] = {"needs": (_UNIT,), "excludes": (_NOBODYS, _ONE_ROW)}
TABLE = Group("[tables.people]", "A table that analysts may name.", (
    Key("path", parsers.read_paths, '"people.parquet"',
        "names the files that hold the rows, the folder of a Delta Lake or Iceberg table, or "
        "objects under s3://; paths start at the policy", costs="nothing"),
    Key("format", parsers.read_format, '"csv"', **_OF_LINES, costs="nothing",
        says="is how rows stand in the files, where their names do not end in it"),
    Key("delimiter", parsers.read_delimiter, '";"', **_OF_LINES, costs="nothing",
        says="parts the fields of a line of CSV: a comma, or a tab in .tsv, unless stated"),
    Key("quote", parsers.read_quote, "\"'\"", **_OF_LINES, costs="nothing",
        says="stands around fields of CSV that hold delimiters: a double quote unless stated"),
    Key("null", parsers.read_null, '"NA"', **_OF_LINES, costs="nothing",
        says="is what stands for NULL in CSV: nothing at all unless stated"),
    Key("fields", parsers.read_names, '["user_id", "age"]', **_OF_LINES, costs="nothing",
        says="are the names of all fields of a line of CSV, where the first line has none"),
    Key("database", parsers.read_text, '"people.duckdb"', costs="nothing",
        says="is a DuckDB or SQLite file with the table, or the URL of a PostgreSQL database, "
        "without a password"),
    Key("table", parsers.read_text, '"people"', costs="nothing",
        says="is the name of the table in that database, or of a view of a DuckDB file; "
        "sales.people is in the schema sales unless `schema` is stated"),
    Key("schema", parsers.read_text, '"sales"', costs="nothing",
        says="is the schema of the table in that database",
        needs=(Beside("table", "a schema holds several tables.", 'table = "people"'),)),
    Key("public", parsers.read_flag, "true", default=False,
        says="says that the table holds nobody's data and may be shown as it is",
        costs="privacy, all of it: every row can be shown"),
    Key("privacy_unit_column", parsers.read_unit, '"user_id"', field="unit",
        excludes=(_NOBODYS,),
        says="names whose presence is protected: all rows with one value, taken together, or "
        "with the same values in several columns",
        costs="privacy, where somebody can have two values: protected half as well"),
    Key("unit_through", parsers.read_through, _WAY, field="through",
        excludes=(_NOBODYS,
                  Beside("privacy_unit_column", "whose a row is stands in one place.")),
        says="names the table that says whose a row is: it is of every unit that has a row "
        "there with its key",
        costs="time: both tables are read, and joined"),
    Key("privacy_unit_type", parsers.read_type, '"integer"', field="unit_type",
        needs=(_COLUMN,), excludes=(_NOBODYS,),
        says="is the type of a unit column that is not listed, and so hidden from analysts",
        costs="nothing"),
    Key("rows_per_unit", parsers.read_single, "1", field="single", default=False, **_OF_UNITS,
        says="declares that each unit has one row; the first scan verifies it",
        costs="time: the first scan counts the rows of units; noise is the least there is"),
    Key("max_rows_contributed", parsers.read_rows, "20", **_OF_ROWS,
        says="is how many rows of one unit count; the noise is scaled to it",
        costs='noise: so many times that of one row; "auto" takes a fifth of the epsilon'),
    Key("max_groups_contributed", parsers.read_count, "2", **_OF_ROWS,
        says="is in how many groups one unit counts in full; the noise is scaled to it. Where "
        "nobody states it: as many as rows count, and 1 for DP_KEYS",
        costs="noise: so many times that of one group"),
    Key("unique", parsers.read_names, '["region"]', default=(),
        says="promises that the values of these columns, taken together, occur once",
        needs=(Beside("public", "only a public table promises that its keys are unique.",
                      "public = true"),),
        costs="nothing; no session opens where it does not hold"),
), inner=("columns",))

_PARTING = Kinds(frozenset({Kind.TEXT, Kind.INTEGER, Kind.BOOLEAN, Kind.DATE}),
    "parts are told by values that are equal exactly: texts, integers, dates, truth.",
    lists=False)
COLUMN = Group("[tables.people.columns]",
    'A column that analysts may name, as `age = { type = "integer", bounds = [0, 120] }`. '
    "What is not listed does not exist for them.", (
    Key("type", parsers.read_type, '"integer"', public=True,
        says="says which values the column can hold; it comes from the owner, not from rows",
        costs="nothing"),
    Key("description", parsers.read_description, '"years since birth"', public=True,
        described=True, says="tells analysts what the column means",
        costs="nothing"),
    Key("bounds", parsers.read_bounds, "[0, 120]", known=("type",),
        says="clamp values to a lowest and a highest, chosen without looking at the data",
        kinds=Kinds(parsers.BOUNDED,
                    "only values that are clamped have bounds: numbers, dates and timestamps.",
                    "keys = [...]    lists the values that may be groups"),
        costs="noise: as wide as they are; values beyond them count as the ends"),
    Key("max_length", parsers.count(parsers.TEXT_LONGEST), str(MAX_TEXT), default=MAX_TEXT,
        says="is how many characters of a text count",
        kinds=Kinds(frozenset({Kind.TEXT}), "only a text has a length."),
        costs="time: texts are carried at this length"),
    Key("keys", parsers.read_keys, '["eng", "ops"]', known=("type", "bounds", "max_length"),
        says="list the groups that may appear, whether or not the data has them",
        kinds=Kinds(frozenset(Kind) - {Kind.DOUBLE},
                    "two doubles can read alike, so they are no groups.",
                    'type = "integer"    where its values are whole numbers'),
        costs="nothing; each is a row of the answer, and noise hides rare ones"),
    Key("grid", parsers.read_grid, "0.01", "is the step to whose multiples values are rounded",
        kinds=Kinds(frozenset({Kind.DOUBLE}), "only a double needs one."),
        costs="noise: values are rounded to it; a fine one takes time"),
    Key("null_group", parsers.read_flag, "false", default=True,
        says="says whether rows without a value are a group of their own",
        costs="nothing; false leaves out the rows without a value"),
    Key("per_unit", parsers.read_per_unit, "true", kinds=_PARTING,
        says="lets each unit count in so many keys only, so that each key has a budget",
        costs="nothing, where it holds: rows of a unit's further keys do not count"),
    Key("parts", parsers.read_flag, "true", default=False, field="parts_rows", kinds=_PARTING,
        says="divides the budget by key, for queries that weigh rows by the table",
        excludes=(Beside("per_unit", "a unit has rows of some of its parts, or of all."),),
        costs="noise: a unit's weight is shared among all its rows in the table"),
))
# fmt: on

GROUPS = (PRIVACY, BUDGET, ANALYST, LIMITS, QUERIES, LEDGER, TABLE, COLUMN)
SECTIONS = ("privacy", "budget", "limits", "analysts", "ledger", "queries", "tables")
"""What a policy file consists of."""

"""The policy file: what is accepted, and every refusal with its code, line, key and remedy."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from pathlib import Path

import pytest

from dpquery.core.privacy_loss import Loss, Neighbours
from dpquery.core.types import INTEGER, TEXT, Kind, Type
from dpquery.errors import PolicyInvalid
from dpquery.policy.load import load_policy
from dpquery.policy.model import Bounds, DatabaseTable, Files, Policy

WHOLE = """\
[privacy]
neighbours = "substitute"
[budget]
epsilon = 10
delta = 1e-7
max_epsilon_per_query = 2
[analysts.alice]
epsilon = 3
[analysts.bob]
epsilon = 0.1
delta = 0
[ledger]
path = "spent.ledger"
high_water = "mark"
[tables.people]
path = "people.parquet"
privacy_unit_column = "user_id"
privacy_unit_type = "text"
max_rows_contributed = 3
max_groups_contributed = 2
[tables.people.columns]
age = { type = "integer", bounds = [0, 120] }
dept = { type = "text", keys = ["eng", "ops"], max_length = 8, per_unit = true }
salary = { type = "double", bounds = [0, 0.1], grid = 0.01 }
rating = { type = "decimal(3, 1)", bounds = [1, 5.0], keys = [1.5, 2] }
hired = { type = "date", bounds = [2000-01-01, 2030-12-31] }
seen = { type = "timestamp", bounds = [2000-01-01T00:00:00, 2030-12-31T00:00:00.5] }
remote = { type = "boolean", keys = [true, false] }
[tables."my log"]
path = ["logs/b.parquet", "logs/a*.parquet"]
columns.n = { type = "integer" }
[tables.stored]
database = "people.duckdb"
table = "Odd name"
privacy_unit_column = "id"
rows_per_unit = 1
columns.id.type = "integer"
[tables.regions]
path = "regions.csv"
public = true
unique = ["region"]
"""

SMALL = """\
[budget]
epsilon = 1
[tables.people]
path = "people.parquet"
privacy_unit_column = "id"
[tables.people.columns]
id = { type = "integer" }
x = { type = "double" }
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    (tmp_path / "empty").mkdir()
    names = ("people.parquet", "people.duckdb", "people.csv", "regions.csv")
    for name in (*names, "logs/a2.parquet", "logs/a1.parquet", "logs/b.parquet"):
        (tmp_path / name).touch()
    return tmp_path


def load(place: Path, text: str | bytes) -> Policy:
    path = place / "policy.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_policy(path)


def test_every_key_is_read_exactly(place: Path) -> None:
    policy = load(place, WHOLE)
    assert policy.neighbours is Neighbours.SUBSTITUTE
    assert policy.budget.limit == Loss(Fraction(10), Fraction(1, 10**7))
    assert policy.budget.max_epsilon_per_query == 2
    assert policy.analysts["bob"].limit == Loss(Fraction(1, 10))
    assert policy.ledger.path == place / "spent.ledger"
    assert policy.ledger.high_water == place / "mark"
    people = policy.tables["people"]
    assert (people.unit, people.unit_type, people.single) == ("user_id", TEXT, False)
    assert (people.max_rows_contributed, people.written) == (3, ("people.parquet",))
    assert people.max_groups_contributed == 2
    assert people.columns["age"].bounds == Bounds(0, 120)
    assert people.columns["dept"].keys == ("eng", "ops")
    assert people.columns["dept"].max_length == 8
    assert (people.parting, policy.tables["stored"].parting) == (people.columns["dept"], None)
    assert people.columns["salary"].bounds == Bounds(Fraction(0), Fraction(1, 10))
    assert people.columns["salary"].grid == Fraction(1, 100)
    assert people.columns["rating"].type == Type(Kind.DECIMAL, 3, 1)
    assert people.columns["rating"].keys == (Fraction(3, 2), Fraction(2))
    assert people.columns["hired"].bounds == Bounds(date(2000, 1, 1), date(2030, 12, 31))
    assert people.columns["remote"].keys == (True, False)


def test_sources_are_files_in_order_or_a_table_of_a_database(place: Path) -> None:
    tables = load(place, WHOLE).tables
    files = tuple(place / "logs" / name for name in ("b.parquet", "a1.parquet", "a2.parquet"))
    assert tables["my log"].source == Files(files)
    assert tables["my log"].written == ("logs/b.parquet", "logs/a*.parquet")
    assert tables["stored"].source == DatabaseTable(place / "people.duckdb", "Odd name")
    assert (tables["stored"].single, tables["stored"].unit_type) == (True, INTEGER)
    assert tables["regions"].public
    assert tables["regions"].unique == ("region",)
    assert tables["regions"].columns == {}


def test_an_analyst_without_delta_shares_the_policys(place: Path) -> None:
    assert load(place, WHOLE).analysts["alice"].limit == Loss(Fraction(3), Fraction(1, 10**7))


def test_defaults_are_the_strictest(place: Path) -> None:
    policy = load(place, SMALL)
    assert policy.neighbours is Neighbours.ADD_REMOVE
    assert policy.budget.limit == Loss(Fraction(1))
    assert policy.budget.max_epsilon_per_query is None
    assert policy.analysts == {}
    assert policy.ledger.path == place / "policy.ledger"
    assert policy.tables["people"].max_rows_contributed is None
    assert not policy.tables["people"].single


def test_another_spelling_of_the_path_means_the_same_ledger(place: Path) -> None:
    ledger = load(place, SMALL).ledger.path
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "link.toml").symlink_to(place / "policy.toml")
    assert load_policy(elsewhere / "link.toml").ledger.path == ledger
    assert load_policy(elsewhere / ".." / "policy.toml").ledger.path == ledger


def test_a_byte_order_mark_and_windows_line_ends_say_nothing(place: Path) -> None:
    assert load(place, b"\xef\xbb\xbf" + SMALL.replace("\n", "\r\n").encode()).tables


@dataclass(frozen=True)
class Case:
    """A change to `SMALL`, and what must come of it."""

    old: str
    new: str
    code: str
    key: str
    line: int
    remedy: str = ""


TOP = "[budget]\n"
COLUMN = '{ type = "double" }'
UNIT = 'privacy_unit_column = "id"\n'
PATH = 'path = "people.parquet"'
X = "tables.people.columns.x"


def column(text: str, key: str, code: str = "DPQ604", remedy: str = "") -> Case:
    return Case(COLUMN, f"{{ {text} }}", code, f"{X}.{key}" if key else X, 8, remedy)


CASES = [
    # unknown keys, at every level, with the nearest known one
    Case(TOP, "[budgets]\nx = 1\n[budget]\n", "DPQ603", "budgets", 1, "budget"),
    Case("epsilon", "epsilom", "DPQ603", "budget.epsilom", 2, "epsilon"),
    Case(
        TOP,
        "[privacy]\nneighbors = 1\n[budget]\n",
        "DPQ603",
        "privacy.neighbors",
        2,
        "neighbours",
    ),
    Case(TOP, "[ledger]\nfile = 'x'\n[budget]\n", "DPQ603", "ledger.file", 2),
    Case(
        TOP,
        "[analysts.al]\nepsilon = 1\nall = 1\n[budget]\n",
        "DPQ603",
        "analysts.al.all",
        3,
    ),
    Case(
        UNIT,
        UNIT + "row_per_unit = 1\n",
        "DPQ603",
        "tables.people.row_per_unit",
        6,
        "rows_per_unit",
    ),
    column('type = "double", bound = [0, 1]', "bound", "DPQ603", "bounds"),
    Case("[tables.people]", "[tables.people]\nkeys = []", "DPQ603", "tables.people.keys", 4),
    # numbers
    Case("epsilon = 1", "epsilon = 0", "DPQ604", "budget.epsilon", 2, "epsilon = 1"),
    Case("epsilon = 1", "epsilon = -1", "DPQ604", "budget.epsilon", 2),
    Case("epsilon = 1", "epsilon = true", "DPQ604", "budget.epsilon", 2),
    Case("epsilon = 1", "epsilon = nan", "DPQ604", "budget.epsilon", 2),
    Case("epsilon = 1", "epsilon = inf", "DPQ604", "budget.epsilon", 2),
    Case("epsilon = 1", 'epsilon = "1"', "DPQ604", "budget.epsilon", 2),
    Case("epsilon = 1", "epsilon = 9e9999", "DPQ604", "budget.epsilon", 2),
    Case("epsilon = 1", "epsilon = 9000000001", "DPQ604", "budget.epsilon", 2),
    Case("epsilon = 1", "epsilon = 0." + "1" * 31, "DPQ604", "budget.epsilon", 2),
    Case("epsilon = 1", "epsilon = 1\ndelta = 1", "DPQ604", "budget.delta", 3, "delta = 1e-7"),
    Case("epsilon = 1", "epsilon = 1\ndelta = -1e-9", "DPQ604", "budget.delta", 3),
    Case("epsilon = 1", "delta = 0", "DPQ607", "budget", 1, "epsilon = 1"),
    Case("[budget]\nepsilon = 1\n", "", "DPQ607", "budget", 0),
    Case(
        "epsilon = 1",
        "epsilon=1\nmax_epsilon_per_query=0",
        "DPQ604",
        "budget.max_epsilon_per_query",
        3,
    ),
    Case(TOP, "[analysts.al]\n[budget]\n", "DPQ607", "analysts.al", 1),
    Case(TOP, "[analysts]\nal = 3\n[budget]\n", "DPQ604", "analysts.al", 2, "[analysts.al]"),
    Case(
        TOP,
        "[privacy]\nneighbours = 'add'\n[budget]\n",
        "DPQ604",
        "privacy.neighbours",
        2,
        "neighbours = ",
    ),
    Case("[budget]\n", "[[budget]]\n", "DPQ604", "budget", 1, "[budget]"),
    # types
    column('type = "intger"', "type", remedy='type = "integer"'),
    column('type = "VARCHAR"', "type", remedy='type = "text"'),
    column('type = "decimal(39,2)"', "type"),
    column('type = "decimal(3,4)"', "type"),
    column("type = 1", "type"),
    column("bounds = [0, 1]", ""),
    Case(f"x = {COLUMN}", 'x = "double"', "DPQ604", X, 8, 'x = { type = "double" }'),
    Case(f"x = {COLUMN}", "x = 1", "DPQ604", X, 8),
    # bounds
    column('type = "double", bounds = [1, 0]', "bounds", remedy="bounds = [0, 1]"),
    column('type = "double", bounds = [nan, 1]', "bounds"),
    column('type = "double", bounds = [0, inf]', "bounds"),
    column('type = "double", bounds = [0, 1e309]', "bounds"),
    column('type = "double", bounds = [0]', "bounds"),
    column('type = "double", bounds = 5', "bounds"),
    column('type = "double", bounds = ["0", "1"]', "bounds", remedy="bounds = [0, 1]"),
    column('type = "double", bounds = [false, true]', "bounds"),
    column('type = "integer", bounds = [0, 1.5]', "bounds"),
    column('type = "integer", bounds = [0, 9223372036854775808]', "bounds"),
    column('type = "decimal(3,1)", bounds = [0, 0.25]', "bounds"),
    column('type = "decimal(3,1)", bounds = [0, 100]', "bounds"),
    column('type = "date", bounds = [2000-01-01, 2001-01-01T00:00:00]', "bounds"),
    column('type = "date", bounds = [1, 2]', "bounds"),
    column('type = "timestamp", bounds = [2000-01-01, 2001-01-01]', "bounds"),
    column(
        'type = "timestamp", bounds = [2000-01-01T00:00:00Z, 2001-01-01T00:00:00Z]', "bounds"
    ),
    column('type = "text", bounds = ["a", "b"]', "bounds", "DPQ607", "keys = "),
    column('type = "boolean", bounds = [false, true]', "bounds", "DPQ607"),
    # keys
    column('type = "text", keys = []', "keys"),
    column('type = "text", keys = "a"', "keys"),
    column('type = "text", keys = ["a", "b", "a"]', "keys"),
    column('type = "text", keys = ["a", 1]', "keys"),
    column('type = "text", keys = ["abc"], max_length = 2', "keys"),
    column('type = "decimal(9,2)", keys = [1, 1.0]', "keys"),
    column('type = "double", keys = [1, 2]', "keys", "DPQ607", 'type = "integer"'),
    column('type = "integer", keys = [1], bounds = [2, 3]', "keys"),
    column('type = "boolean", keys = [1]', "keys"),
    # description
    column('type = "double", description = ""', "description", remedy="description = "),
    column('type = "double", description = "a\\u001b[2J"', "description"),
    column('type = "double", description = 5', "description"),
    # grid and length
    column('type = "double", grid = 0', "grid", remedy="grid = 0.01"),
    column('type = "double", grid = 1e-320', "grid"),
    column('type = "integer", grid = 1', "grid", "DPQ607"),
    column('type = "text", max_length = 0', "max_length"),
    column('type = "text", max_length = 65537', "max_length"),
    column('type = "double", max_length = 5', "max_length", "DPQ607"),
    # parts
    column('type = "integer", bounds = [12]', "bounds", remedy="bounds = [0, 120]"),
    column(
        'type = "date", bounds = [2024-01-01]',
        "bounds",
        remedy="bounds = [2000-01-01, 2030-12-31]",
    ),
    column('type = "text", null_group = 0', "null_group", remedy="null_group = false"),
    column('type = "text", per_unit = true', "per_unit", "DPQ607", "x = {"),
    column('type = "text", keys = ["a"], per_unit = 0', "per_unit"),
    column('type = "text", keys = ["a"], per_unit = 255', "per_unit"),
    column(
        'type = "text", keys = ["a"], per_unit = "one"', "per_unit", remedy="per_unit = true"
    ),
    column('type = "text", per_unit = 2', "per_unit", "DPQ607", "x = {"),
    column('type = "decimal(3,1)", keys = [1], per_unit = true', "per_unit", "DPQ607"),
    column(f'type = "integer", keys = {[*range(256)]}, per_unit = true', "per_unit", "DPQ607"),
    column('type = "text", parts = true', "parts", "DPQ607", "x = {"),
    column('type = "text", keys = ["a"], parts = "a"', "parts"),
    column('type = "decimal(3,1)", keys = [1], parts = true', "parts", "DPQ607"),
    column('type = "text", keys = ["a"], per_unit = true, parts = true', "parts", "DPQ607"),
    # units
    Case(
        UNIT,
        'privacy_unit_column = "idd"\n',
        "DPQ607",
        "tables.people.privacy_unit_column",
        5,
        'privacy_unit_column = "id"',
    ),
    Case(UNIT, 'privacy_unit_column = "x"\n', "DPQ607", "tables.people.privacy_unit_column", 5),
    Case(
        UNIT,
        UNIT + 'privacy_unit_type = "text"\n',
        "DPQ607",
        "tables.people.privacy_unit_type",
        6,
    ),
    Case(
        UNIT,
        'privacy_unit_column = "ID"\nprivacy_unit_type = "text"\n',
        "DPQ607",
        "tables.people.privacy_unit_type",
        6,
    ),
    Case(
        UNIT,
        'privacy_unit_column = "u"\nprivacy_unit_type = "double"\n',
        "DPQ607",
        "tables.people.privacy_unit_type",
        6,
    ),
    Case(
        UNIT,
        "rows_per_unit = 1\n",
        "DPQ607",
        "tables.people.rows_per_unit",
        5,
        "privacy_unit_column",
    ),
    Case(UNIT, "max_rows_contributed = 1\n", "DPQ607", "tables.people.max_rows_contributed", 5),
    Case(
        UNIT,
        UNIT + "rows_per_unit = 2\n",
        "DPQ604",
        "tables.people.rows_per_unit",
        6,
        "max_rows_contributed = 2",
    ),
    Case(UNIT, UNIT + "rows_per_unit = true\n", "DPQ604", "tables.people.rows_per_unit", 6),
    Case(
        UNIT,
        UNIT + "max_rows_contributed = 0\n",
        "DPQ604",
        "tables.people.max_rows_contributed",
        6,
    ),
    Case(
        UNIT,
        UNIT + "max_rows_contributed = 1048577\n",
        "DPQ604",
        "tables.people.max_rows_contributed",
        6,
    ),
    Case(
        UNIT,
        UNIT + "rows_per_unit = 1\nmax_rows_contributed = 2\n",
        "DPQ607",
        "tables.people.max_rows_contributed",
        7,
    ),
    # public and private
    Case(UNIT, UNIT + "public = true\n", "DPQ607", "tables.people.privacy_unit_column", 5),
    Case(UNIT, 'public = "yes"\n', "DPQ604", "tables.people.public", 5),
    Case(
        UNIT, UNIT + 'unique = ["id"]\n', "DPQ607", "tables.people.unique", 6, "public = true"
    ),
    Case(UNIT, 'public = true\nunique = ["idd"]\n', "DPQ607", "tables.people.unique", 6),
    Case(UNIT, "public = true\nunique = []\n", "DPQ604", "tables.people.unique", 6),
    Case(UNIT, 'public = true\nunique = ["id", "id"]\n', "DPQ604", "tables.people.unique", 6),
    Case(
        f'{UNIT}[tables.people.columns]\nid = {{ type = "integer" }}\nx = {COLUMN}\n',
        "",
        "DPQ607",
        "tables.people",
        3,
        "[tables.people.columns]",
    ),
    Case(
        f'{UNIT}[tables.people.columns]\nid = {{ type = "integer" }}\nx = {COLUMN}',
        'public = true\ncolumns.x = { type = "integer", bounds = [0, 1] }',
        "DPQ607",
        "tables.people.columns.x.bounds",
        6,
    ),
    # files
    Case(PATH, 'path = "none.parquet"', "DPQ601", "tables.people.path", 4),
    Case(PATH, 'path = "none*.parquet"', "DPQ601", "tables.people.path", 4),
    Case(PATH, 'path = "empty"', "DPQ601", "tables.people.path", 4),
    Case(PATH, 'path = "logs"\nformat = "csv"', "DPQ601", "tables.people.path", 4),
    Case(PATH, f'{PATH}\nformat = "xlsx"', "DPQ604", "tables.people.format", 5),
    Case(PATH, f'{PATH}\ndelimiter = ";"', "DPQ607", "tables.people.delimiter", 5),
    Case(PATH, 'path = "people.csv"\nnull = 3', "DPQ604", "tables.people.null", 5),
    Case(PATH, 'path = "people.csv"\nquote = ","', "DPQ607", "tables.people.quote", 5),
    *(
        Case(PATH, f'path = "people.csv"\ndelimiter = {sign}', "DPQ604", key, 5)
        for key in ["tables.people.delimiter"]
        for sign in ('""', '", "', '"a"', '"\\n"', '"é"', '" "', '"\\u0000"', "3")
    ),
    Case(
        PATH,
        'path = ["people.csv", "people.parquet"]',
        "DPQ607",
        "tables.people.path",
        4,
        "a table for each format",
    ),
    Case(PATH, f'path = "{"a" * 300}"', "DPQ601", "tables.people.path", 4),
    Case(PATH, 'path = ""', "DPQ604", "tables.people.path", 4),
    Case(PATH, "path = []", "DPQ604", "tables.people.path", 4),
    Case(PATH, 'path = "a\\u0000b"', "DPQ604", "tables.people.path", 4),
    Case(
        PATH, 'path = ["people.parquet", "./people.parquet"]', "DPQ607", "tables.people.path", 4
    ),
    Case(PATH, 'database = "people.duckdb"', "DPQ607", "tables.people.database", 4),
    Case(PATH, 'database = "none.duckdb"\ntable = "x"', "DPQ601", "tables.people.database", 4),
    Case(PATH, f'{PATH}\ntable = "x"', "DPQ607", "tables.people.path", 4),
    Case(PATH, "", "DPQ607", "tables.people", 3, 'path = "people.parquet"'),
    Case(
        TOP,
        '[tables.again]\npath = "people.parquet"\npublic = true\n[budget]\n',
        "DPQ607",
        "tables.again.public",
        3,
    ),
    Case(TOP, '[ledger]\npath = "policy.toml"\n[budget]\n', "DPQ607", "ledger.path", 2),
    Case(
        TOP,
        '[ledger]\nhigh_water = "policy.ledger"\n[budget]\n',
        "DPQ607",
        "ledger.high_water",
        2,
    ),
    # names
    Case(TOP, "[tables.People]\n[budget]\n", "DPQ607", "tables.people", 4),
    Case(f"x = {COLUMN}", f"Id = {COLUMN}", "DPQ607", "tables.people.columns.Id", 8),
    Case(TOP, '[tables."a\\tb"]\n[budget]\n', "DPQ604", 'tables."a\\tb"', 1),
    Case(TOP, f"[tables.{'a' * 129}]\n[budget]\n", "DPQ604", f"tables.{'a' * 129}", 1),
    Case(TOP, '[tables.""]\n[budget]\n', "DPQ604", 'tables.""', 1),
    Case(
        TOP,
        "[analysts.al]\nepsilon = 1\n[analysts.AL]\nepsilon = 2\n[budget]\n",
        "DPQ607",
        "analysts.AL",
        3,
    ),
]


@pytest.mark.parametrize(
    ("key", "value", "remedy"),
    [
        ("epsilon", "'2'", "epsilon = 2"),
        ("epsilon", "'much'", "epsilon = 1"),
        ("shared_answers", "'false'", "shared_answers = false"),
        ("shared_answers", "0", "shared_answers = false"),
        ("shared_answers", "'yes'", "shared_answers = true"),
    ],
)
def test_a_value_in_the_wrong_form_is_offered_in_the_right_one(place, key, value, remedy):
    rest = "" if key == "epsilon" else "epsilon = 1\n"
    with pytest.raises(PolicyInvalid) as caught:
        load(place, f"[budget]\n{rest}{key} = {value}\n")
    assert caught.value.diagnostic.remedy == (remedy,)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.key[:40]}-{case.new[:30]!r}")
def test_each_doubt_is_refused_with_its_place(place: Path, case: Case) -> None:
    assert SMALL.count(case.old) >= 1
    with pytest.raises(PolicyInvalid) as caught:
        load(place, SMALL.replace(case.old, case.new, 1))
    error = caught.value
    assert (error.code, error.key, error.line) == (case.code, case.key, case.line or None)
    assert error.file == str(place / "policy.toml")
    assert error.diagnostic.remedy[0].startswith(case.remedy)
    assert error.diagnostic.title.startswith(case.key)
    assert error.diagnostic.why[0].endswith((".", "exact"))
    assert error.diagnostic.remedy[0]


def test_columns_of_a_public_table_have_a_description_too(place: Path) -> None:
    told = '[tables.regions.columns]\nregion = { type = "text", description = "code, as n1" }\n'
    regions = load(place, WHOLE + told).tables["regions"]
    assert regions.columns["region"].description == "code, as n1"


@pytest.mark.parametrize(
    "denied",
    [
        'type = "double", parts = false, per_unit = false',
        'type = "text", keys = ["a"], per_unit = true, parts = false',
    ],
)
def test_what_is_denied_contradicts_nothing(place: Path, denied: str) -> None:
    assert (
        not load(place, SMALL.replace(COLUMN, f"{{ {denied} }}"))
        .tables["people"]
        .columns["x"]
        .parts_rows
    )


def test_no_table_is_refused(place: Path) -> None:
    with pytest.raises(PolicyInvalid, match="tables holds no table"):
        load(place, "[budget]\nepsilon = 1\n")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[budget]\nepsilon = \n", 2),
        ("[budget]\nepsilon = 1\nepsilon = 2\n", 3),
        ("[budget]\n[budget]\n", 2),
        ("[budget", 1),
        ("[budget]\nx = [1,\n", 2),
        ("x = " + "[" * 5000, None),
        ("x = 1e99999999999999999999", None),
        ("x = " + "1" * 5000, None),
        ("x = '''", 1),
        ("x = 2000-02-31", 1),
    ],
)
def test_what_is_not_toml_is_refused_with_its_line(
    place: Path, text: str, line: int | None
) -> None:
    with pytest.raises(PolicyInvalid) as caught:
        load(place, text)
    assert (caught.value.code, caught.value.line) == ("DPQ602", line)


def test_a_file_that_cannot_be_read_is_refused(place: Path) -> None:
    for path in (place / "none.toml", place):
        with pytest.raises(PolicyInvalid) as caught:
            load_policy(path)
        assert caught.value.code == "DPQ601"
    for content in (b"\xff\xfe", b"#" * (4 * 2**20 + 1)):
        with pytest.raises(PolicyInvalid) as caught:
            load(place, content)
        assert caught.value.code == "DPQ601"


def test_the_wording_of_a_refusal(place: Path) -> None:
    with pytest.raises(PolicyInvalid) as caught:
        load(place, SMALL.replace("privacy_unit_column", "privacy_unit_colum"))
    assert str(caught.value) == (
        "policy[DPQ603]: tables.people.privacy_unit_colum is not a key of the policy\n"
        f"   --> {place / 'policy.toml'}:5\n"
        "   why: a key that is not understood might have been a limit, so none is skipped.\n"
        '   try: privacy_unit_column = "id"\n'
        "        known here: privacy_unit_column, columns, database, delimiter, fields, "
        "format, max_groups_contributed, max_rows_contributed, null, path, …"
    )

"""What may stand on the command line, and what `connect` is given of it.

Numbers stay text on their way to `connect`, which reads them exactly (I8).
"""

from __future__ import annotations

import csv
import os
import re
import shlex
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePath
from typing import Any

from dpquery.client.server_connection import SCHEMES
from dpquery.core.privacy_loss import Neighbours
from dpquery.display.formats import FORMATS
from dpquery.errors import DPQueryError, PolicyInvalid, nearest

_MORE = """\
-c and -f are asked in their order, until one fails. Without them, the shell opens on a
terminal; otherwise statements are read from standard input, parted by semicolons.
Standard output carries answers only; refusals, notes and the budget go to standard error.

Other commands:
  dpquery demo                  groups, a quantile and a refusal on the sample data
  dpquery practice POLICY       ask rows that are made up from the policy: no data are opened,
                                nothing is charged; with the options above, or in the shell
  dpquery lab TOPIC             compare mechanisms on synthetic rows: quantiles, means, counts;
                                or figures, those of the lecture notes that this grew out of
  dpquery explain TOPIC         a code such as DPQ301, or a page such as functions
  dpquery policy init SOURCE... draft a policy from the schemas of files, folders, DuckDB files;
                                --interactive asks what only you know, -o FILE writes a new file
  dpquery policy check FILE     check a policy against its data (for the data owner); --review
                                says what its numbers come to, --json for programs
  dpquery policy publish POLICY say that the data are other ones now: no answer is repeated
  dpquery ledger show POLICY    list what has been charged
  dpquery ledger losses POLICY  what it adds up to, as each accountant puts it
  dpquery ledger verify POLICY  check the ledger from its first charge to its last
  dpquery ledger export POLICY  write all charges: --format csv, json or dp-accounting, -o FILE
  dpquery ledger backup POLICY FILE
                                copy the ledger as it is now, while sessions charge
  dpquery ledger freeze POLICY  refuse every charge, until dpquery ledger thaw POLICY
  dpquery ledger thaw POLICY    charge again; forgive failures, of all or of --analyst A
  dpquery ledger grant POLICY --analyst A --add E | --to E [--delta D]
                                raise one analyst's limit by or to E, up to the policy's total
  dpquery serve POLICY          serve it: --listen HOST:PORT for PostgreSQL's protocol, --http
                                HOST:PORT for browsers, --tls-cert FILE --tls-key FILE
  dpquery user add POLICY NAME...
                                let analysts log in to the server: --generate makes passwords,
                                --owner one who gives orders; passwd, list, remove

Exit codes: 0 answered, 1 refused, 2 usage or policy, 3 budget, 4 the scan failed, 70 a mistake
in dpquery, 130 interrupted.
"""


_SOURCE = (
    "a policy (.toml), one's own file, folder or glob in quotes, several as NAME=FILE; or a "
    "server: postgresql://NAME@HOST:PORT/"
)
VERBS = ("demo", "explain", "lab", "ledger", "policy", "practice", "serve", "user")
TABLE = "table"
_PLAIN = frozenset({"", "txt", "text", "log", "out"})
"""Suffixes of files that tables are written to."""


class UsageError(Exception):
    """The command line, or a file that it names, needs mending."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of what is to be asked: a statement, or the name of a file of them."""

    text: str
    from_file: bool


def _query_parser(program: str) -> ArgumentParser:
    """Return the parser for asking a source."""
    parser = ArgumentParser(
        program,
        description="Ask SQL about people without giving away any one of them.",
        epilog=_MORE,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("source", metavar="SOURCE", nargs="+", help=_SOURCE)
    text, file = (partial(Part, from_file=from_file) for from_file in (False, True))
    script: dict[str, Any] = {"dest": "script", "action": "append"}
    add("-c", **script, type=text, metavar="SQL", help="one statement; may be repeated")
    add("-f", **script, type=file, metavar="FILE", help="a file of statements; may be repeated")
    add("--explain", action="store_true", help="what -c and -f would cost; free")
    add("--analyst", metavar="A", help="who asks, where the policy lists analysts")
    add("--epsilon", metavar="E", help="a ceiling for this session")
    add("--delta", metavar="D", help="the same for delta")
    add("-e", "--eps", metavar="E", help="what each statement may spend on plain aggregates")
    of_tables: dict[str, Any] = {"action": "append", "type": _of_table}
    unit = "without a policy: the column of the privacy unit, or TABLE=COL for each table"
    add("--unit", **of_tables, metavar="COL", help=unit)
    single = "without a policy: each unit has one row, or TABLE=1 where it has"
    add("--rows-per-unit", action="append", type=_single, metavar="1", help=single)
    rows = "without a policy: at most K rows of a person count, or 'auto' to have K found"
    add("--rows", **of_tables, metavar="K", help=f"{rows}; or TABLE=K")
    add("--bounds", action="append", type=_bounds, metavar="COL=LO:HI", help="may be repeated")
    keys = "the groups that may appear; may be repeated; TABLE.COL too"
    add("--keys", action="append", type=_keys, metavar="COL=A,B,C", help=keys)
    public = "a file beside them that holds nobody's data, or NAME=FILE; may be repeated"
    add("--public", action="append", metavar="FILE", help=public)
    add("--neighbours", choices=[str(relation) for relation in Neighbours])
    add("--ledger", metavar="FILE", help="without a policy: a file, or a postgresql:// URL")
    add("--intervals", action="store_true", help="n_low and n_high beside each noisy n (95 %%)")
    add("--format", choices=list(FORMATS), help="table, unless the name of OUT says another")
    add("-o", dest="out", metavar="OUT", help="write answers to a file, such as answers.csv")
    from dpquery import __version__

    add("--version", action="version", version=f"dpquery {__version__}")
    return parser


def asked(argv: Sequence[str], program: str = "dpquery") -> Namespace:
    """Read the command line that asks a source."""
    parser = _query_parser(program)
    options = parser.parse_intermixed_args(argv)
    first, *others = options.source
    if others and any(source.startswith(SCHEMES) for source in options.source):
        raise UsageError("a server is asked by itself: name one URL, and no file beside it")
    if others and not all(map(_named, options.source)):
        raise UsageError(_of_several(parser.prog, first, others[0]))
    options.source = _sources(options.source)
    options.format = options.format or format_of(options.out)
    return options


_NAMED = re.compile(r"(\w+)=(.+)", re.DOTALL)


def _named(text: str) -> re.Match[str] | None:
    """Return name and path of NAME=FILE; a path that is there may have such a name itself."""
    return None if os.path.exists(text) else _NAMED.fullmatch(text)


def _sources(texts: Sequence[str]) -> str | dict[str, str | list[str]]:
    """Return one path, or the paths of tables by name: of a name that comes again, several."""
    (first, *others), found = texts, dict[str, str | list[str]]()
    if not others and _named(first) is None:
        return first
    for text in texts:
        match = _named(text)
        name, path = match.groups() if match else (PurePath(text).stem, text)
        known = found.get(name, [])
        found[name] = [*([known] if isinstance(known, str) else known), path] if known else path
    return found


def of_one_file(parser: ArgumentParser, name: str, argv: Sequence[str]) -> Namespace:
    """Read a command line that names one file, or a glob that no shell has expanded."""
    options, rest = parser.parse_known_args(argv)
    if rest and not any(word.startswith("-") for word in rest):
        raise UsageError(_of_several(parser.prog, getattr(options, name), rest[0]))
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return options


def _of_several(program: str, first: str, second: str) -> str:
    """Say what was meant by two words where one source is expected."""
    if any(char.isspace() for char in second):
        asked = f"{program} {shlex.quote(first)} -c {shlex.quote(second)}"
        return f"write -c before the query: {asked}"
    meant = nearest(first, VERBS, 0.7)
    if meant is not None and not PurePath(first).suffix:
        return f"there is no command {first}: did you mean {meant}?"
    path = PurePath(first)
    glob = shlex.quote(str(path.parent / f"*{path.suffix}"))
    several = f"many files are one table by a glob in quotes: {program} {glob}"
    if program == "dpquery":
        several += "; two tables have names: dpquery a=a.parquet b=b.parquet"
    return f"one source is asked, and {second} is another; {several}"


_OPTIONS = {
    "unit": "--unit",
    "rows_per_unit": "--rows-per-unit",
    "max_rows_contributed": "--rows",
}
_PYTHON: dict[str, str | Callable[[re.Match[str]], str]] = {
    r"^(\w+)=(?= cannot be given)": lambda found: _OPTIONS.get(found[1], f"--{found[1]}"),
    r'\b(unit|rows_per_unit|max_rows_contributed)=\{(?:\.\.\., )?"([^"]+)": ([^}]*)\}': (
        lambda found: f"{_OPTIONS[found[1]]} {found[2]}={found[3]}"
    ),
    r'\bkeys=\{"([^"]+)": \[([^\]]*)\]\}': (
        lambda found: f"--keys {found[1]}={found[2].replace(', ', ',').replace(chr(34), '')}"
    ),
    r'\bkeys\["([^"]+)"\]': r"--keys \1",
    r'dpquery\.connect\("([^"]+)", (.*)\)$': r"dpquery \1 \2",
    r'dpquery\.connect\("(postgresql:[^"]+)"\)$': r"dpquery \1",
    r'\bbounds=\{"?([^":{}]+)"?: \("?([^",]+)"?, "?([^")]+)"?\)\}': r"--bounds \1=\2:\3",
    r'\bbounds\["([^"]+)"\]': r"--bounds \1",
    r"\brows_per_unit(?:=1)?\b": "--rows-per-unit 1",
    r"\bmax_rows_contributed(?:=|\b)": "--rows ",
    r'(?<![\w-])(unit|epsilon|delta|analyst|ledger|neighbours)="?([^",\s]+)"?,?': r"--\1 \2",
    r"^(unit|epsilon|delta|analyst|ledger|neighbours)=?(?= )": r"--\1",
    r"(?<=lack of )unit=": "--unit",
    r" +(?= )|,? in Python .*$|^on the command line: .*$": "",
}
"""How arguments of `connect` are written on the command line, in the order of reading."""


def in_options(text: str) -> str:
    """Write a line about arguments of `connect` as the command line has them.

    >>> in_options('unit="person_id"'), in_options('bounds={"age": (0, 100)}')
    ('--unit person_id', '--bounds age=0:100')
    """
    for python, option in _PYTHON.items():
        text = re.sub(python, option, text)
    return text.strip()


def without_python(text: str) -> str:
    """Leave out of a line how it is said in Python.

    >>> without_python("name the column: --unit user_id, in Python unit='user_id'")
    'name the column: --unit user_id'
    """
    return re.sub(r", in Python .*$", "", text)


def worded(fault: DPQueryError) -> DPQueryError:
    """Return a fault in the words of the command line: it says options, not arguments."""
    found = fault.diagnostic
    if isinstance(fault, PolicyInvalid) and fault.file is None:
        title = in_options(found.title)
        remedy = tuple(filter(None, map(in_options, found.remedy)))
        fault.diagnostic = replace(found, title=title, remedy=remedy)
    else:
        remedy = tuple(map(without_python, found.remedy))
        fault.diagnostic = replace(found, remedy=remedy)
    return fault


def format_of(out: str | None) -> str:
    """Return the format that the suffix of a file's name says; a table of text or none."""
    suffix = PurePath(out or "").suffix[1:].lower()
    if suffix in FORMATS:
        return suffix
    if suffix in _PLAIN:
        return TABLE
    known = ", ".join(f".{form}" for form in FORMATS if form != TABLE)
    raise UsageError(
        f"there is no format .{suffix}: write a name that ends in {known} or .txt, "
        "or say which it is: --format csv"
    )


def verb_parser(*words: str, argument: str | None = None) -> ArgumentParser:
    """Return the parser of a verb, which takes one argument or none."""
    parser = ArgumentParser(" ".join(("dpquery", *words)), allow_abbrev=False)
    if argument is not None:
        said = _ARGUMENTS.get(words, "a policy (.toml)")
        parser.add_argument(
            "argument",
            metavar=argument,
            help=said,
            nargs=_NUMBERS.get(words),
        )
    _add_options(words[-1], parser.add_argument)
    if words[-1] == "grant":
        how = parser.add_mutually_exclusive_group(required=True)
        how.add_argument("--add", metavar="E", help="raise their epsilon by so much")
        how.add_argument("--to", metavar="E", help="raise their epsilon to so much")
    return parser


def _add_options(verb: str, add: Callable[..., object]) -> None:
    """Add what may be stated beside the argument of a verb."""
    match verb:
        case "init":
            add("-o", dest="out", metavar="FILE", help="write to a new file")
            asks = "ask on the terminal, table by table, and write what loads"
            add("--interactive", action="store_true", help=asks)
        case "check":
            add("--review", action="store_true", help="what its numbers come to over the rows")
            add("--json", action="store_true", help="the review as JSON")
        case "lab":
            _add_trying(add)
        case "export":
            add("-o", dest="out", metavar="FILE", help="write to a file")
            add("--format", choices=["csv", "json", "dp-accounting"], default="csv")
        case "backup":
            add("file", metavar="FILE", help="a new file")
        case "thaw":
            add("--analyst", metavar="A", help="who alone; all where nobody is named")
        case "serve":
            _add_serving(add)
        case "add" | "passwd" | "remove":
            add("name", metavar="NAME", nargs="+" if verb == "add" else 1)
            if verb != "remove":
                add("--generate", action="store_true", help="make a password, and print it")
            if verb == "add":
                add("--owner", action="store_true", help="sees all budgets, and gives orders")
        case "grant":
            add("--analyst", metavar="A", required=True, help="as the policy names them")
            add("--delta", metavar="D", help="the same for delta, in the same way")


def _add_trying(add: Callable[..., object]) -> None:
    """Add what is tried on synthetic rows."""
    add("--n", metavar="N", default="1000", help="rows; N,N for several numbers; 1000")
    add("--eps", metavar="E", default="1", help="the epsilon of a call; E,E for several; 1")
    add("--m", metavar="M", help="how many quantiles, bins or values; M,M for several; 9")
    add("--law", metavar="LAW", help="how values are spread: uniform, normal, lognormal, ...")
    relations = [str(relation) for relation in Neighbours]
    add("--neighbours", choices=relations, default=relations[0])
    add("--delta", metavar="D", default="1e-6", help="of mechanisms that need one; 1e-6")
    add("--draws", metavar="K", help="of each mechanism, or of each figure; 200, or 100")
    add("--plot", action="store_true", help="a picture below the table")
    add("--format", choices=list(FORMATS), help="table, unless the name of OUT says another")
    add("-o", dest="out", metavar="OUT", help="write to a file, such as x.csv; or x.png, x.svg")


def _add_serving(add: Callable[..., object]) -> None:
    """Add what a server may be told."""
    here = "127.0.0.1:5433"
    said = f"for PostgreSQL's protocol; {here}"
    add("--listen", metavar="HOST:PORT", default=here, help=said)
    add("--http", metavar="HOST:PORT", help="for browsers; nowhere unless it is stated")
    add("--tls-cert", metavar="FILE", help="a certificate; needed beyond this machine")
    add("--tls-key", metavar="FILE", help="its key")
    add("--workers", metavar="N", type=_count, default=2, help="statements at once; 2")
    add("--memory", metavar="SIZE", default="6GB", help="addresses of one worker; 6GB")
    add("--connections", metavar="N", type=_count, default=2000, help="at most; 2000")


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 1 << 16):
        raise ArgumentTypeError(f"a number from 1 on, not {text!r}")
    return int(text)


_ARGUMENTS = {
    ("explain",): "a code, such as DPQ301, a page, such as tutorial, or a function",
    ("lab",): "quantiles, means, counts, sums, histograms, ...; or figures, and their names",
    ("policy", "init"): "a Parquet file, a folder, a DuckDB file, or a glob in quotes",
}
"""What commands take, where it is no policy."""
_NUMBERS = {("explain",): "?", ("lab",): "+", ("policy", "init"): "+"}
"""How many of it."""


def connect_settings(options: Namespace) -> dict[str, Any]:
    """Return the arguments of `connect` that the command line states, and no others."""
    names = ("analyst", "epsilon", "delta", "neighbours", "ledger")
    stated = {name: value for name in names if (value := getattr(options, name)) is not None}
    tables = list(options.source) if isinstance(options.source, dict) else []
    for option, name in _OF_TABLES.items():
        if (given := getattr(options, option)) is not None:
            stated[name] = _by_table(given, tables, whole=option == "unit")
    for name in ("bounds", "keys"):
        if (given := getattr(options, name)) is not None:
            stated[name] = dict(given)
    if options.public is not None:
        stated["public"] = _sources(options.public)
    return stated


_OF_TABLES = {
    "unit": "unit",
    "rows_per_unit": "rows_per_unit",
    "rows": "max_rows_contributed",
}
"""What may be said of one table or of all, and what `connect` calls it."""


def _by_table(
    given: Sequence[tuple[str, Any]], tables: Sequence[str], *, whole: bool
) -> object:
    """Return what was said of all tables, or of each; `whole` needs a word of every table."""
    said = dict(given)
    of_all = said.pop("", None)
    if not said:
        return of_all
    rest = tables if whole or of_all is not None else ()
    return {**dict.fromkeys(rest, of_all), **said}


def _of_table(text: str) -> tuple[str, str]:
    """Read VALUE, which is for all tables, or TABLE=VALUE."""
    table, _, value = text.rpartition("=")
    return table, value


def _single(text: str) -> tuple[str, int]:
    """Read 1, or TABLE=1: no other number is promised."""
    table, value = _of_table(text)
    if value != "1":
        raise ArgumentTypeError(f"{text!r} is not 1; --rows K says that at most K rows count")
    return table, 1


def _keys(text: str) -> tuple[str, list[str]]:
    """Read COL=A,B,C; a value with a comma in it stands in double quotes."""
    column, equals, values = text.partition("=")
    found = next(csv.reader([values], strict=True), [])
    if not column or not equals or not found:
        raise ArgumentTypeError(f"{text!r} is not COL=A,B,C, such as dept=eng,ops")
    return column, found


def _bounds(text: str) -> tuple[str, tuple[str, str]]:
    """Read COL=LO:HI; the colon in the middle parts the two, since timestamps hold some."""
    column, equals, ends = text.rpartition("=")
    parts = ends.split(":")
    half = len(parts) // 2
    if not column or not equals or len(parts) % 2:
        raise ArgumentTypeError(f"{text!r} is not COL=LO:HI, such as salary=0:300000")
    return column, (":".join(parts[:half]), ":".join(parts[half:]))

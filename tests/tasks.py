"""`python -m tests.tasks docs` writes again what is generated; a test fails on a stale copy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path

from dpquery import functions, rowfunctions
from dpquery.functions.base import DPFunction, Expression
from dpquery.functions.distributions.points_argument import Points
from dpquery.policy import toml_keys
from dpquery.policy.document import written
from dpquery.rowfunctions.base import RowFunction
from dpquery.sql.bind.scope import INTERVAL_ENDS
from dpquery.sql.postprocess.builtin_functions import AGGREGATES, ONLY_WINDOWS
from dpquery.sql.postprocess.builtin_functions import NAMES as RESULTS
from tests.corpus.benchmarks import page as benchmarks
from tests.docs import follow, picture

ROOT = Path(__file__).resolve().parent.parent


def functions_page() -> str:
    """Return the text of docs/functions.md."""
    parts = [
        "# Functions",
        "`make docs` writes this from `dpquery/functions`; each call is a release of its own.",
        *map(_function, functions.ALL),
        "# Functions of rows",
        "What WHERE, FILTER, GROUP BY and the arguments of `DP_` functions are made of, beside "
        "comparisons and arithmetic: from `dpquery/rowfunctions`. Every one has a value, or "
        "NULL, for every row. An argument that is NULL gives NULL, unless said otherwise.",
        *(_family(name, family) for name, family in rowfunctions.FAMILIES.items()),
        "# Functions of results",
        "What is computed from released values and from public tables is made of these. None "
        "fails on a value: NULL stands where there is no result.",
        f"Of values: {_names(RESULTS)}.",
        *(f"`{end}(n)`, or `{end}(n, 0.9)`: {line}" for end, line in INTERVAL_ENDS.items()),
        f"Aggregates, also before `OVER`: {_names(AGGREGATES)}.",
        f"Before `OVER` alone: {_names(ONLY_WINDOWS)}.",
    ]
    return "\n\n".join(parts) + "\n"


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def _function(function: DPFunction) -> str:
    also = ", ".join(f"`{name}`" for name in function.aliases)
    rows = ["| argument | |", "|---|---|"]
    for place, one in zip(("first", "second", "third"), function.positional, strict=False):
        asked = "a column or an expression" if isinstance(one, Expression) else one.noun
        asked += ", or `*` for all rows" if one == function.first and one.star else ""
        asked += ", or several" if function.several else ""
        if isinstance(one, Expression) and one.listed:
            asked = f"a list of up to {one.listed} columns or expressions, in brackets"
        if isinstance(one, Points):
            asked = f"a list of {one.noun}" + ", or how many" * one.counted
            asked += f"; also as `{one.name}=`"
        rows.append(f"| the {place} | {asked} |")
    for parameter in function.parameters:
        names = " or ".join(f"`{name}`" for name in (parameter.name, *parameter.aliases))
        rows.append(f"| {names} | {parameter.summary} |")
    default, *others = (f"`'{name}'`" for name in function.mechanisms)
    parts = [
        f"## {function.name}",
        function.summary + (f" Also called {also}." if also else ""),
        "\n".join(rows),
        ", ".join([f"Mechanisms: {default}, which is the default", *others]) + ".",
        f"```sql\n{function.example}\n```",
    ]
    return "\n\n".join(parts)


def _family(name: str, family: tuple[RowFunction, ...]) -> str:
    rows = [f"## {name}", "", "| function | as in | |", "|---|---|---|"]
    for function in family:
        called = ", ".join(f"`{one}`" for one in (function.name, *function.aliases))
        shown = called if function.written else ""
        rows.append(f"| {shown} | `{_cell(function.example)}` | {_cell(function.summary)} |")
    return "\n".join(rows)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def policy_page() -> str:
    """Return the text of docs/policy.md."""
    parts = [
        "# Keys of a policy",
        "`make docs` writes this from `dpquery/policy/toml_keys.py`; [`owners.md`](owners.md) "
        "says how to choose. Only `[budget]` and one table have to be there; every key may be "
        "left out unless this page says otherwise. A key that is not listed here is refused. "
        "What a key costs is privacy (what an answer may tell of somebody), noise (what hides "
        "it), time of the machine, or nothing.",
        *chain.from_iterable(map(_group, toml_keys.GROUPS)),
    ]
    return "\n\n".join(parts) + "\n"


def _group(group: toml_keys.Group) -> tuple[str, str, str]:
    rows = [
        f"| `{_cell(key.line)}` | {_cell(key.reader.takes)} | {_key(key)} | {key.costs} |"
        for key in group.keys
    ]
    table = "\n".join(["| key | value | | costs |", "|---|---|---|---|", *rows])
    return f"## `{group.header}`", group.says, table


def _key(key: toml_keys.Key) -> str:
    beside = (
        ("Not beside", [f"`{other.key}`" for other in key.excludes]),
        ("Needs", [" or ".join(f"`{k}`" for k in other.keys) for other in key.needs]),
        ("For columns of type", sorted(key.kinds.of) if key.kinds else []),
    )
    says = key.says.removeprefix("is ")
    said = [f"{says[0].upper()}{says[1:]}."]
    if key.default:
        default = str(key.default) if isinstance(key.default, str) else key.default
        said.append(f"Unless stated: `{written(default)}`.")
    said += [f"{word} {', '.join(others)}." for word, others in beside if others]
    return _cell(" ".join(said))


GENERATED: dict[Path, Callable[[], str]] = {
    ROOT / "docs" / "functions.md": functions_page,
    ROOT / "docs" / "policy.md": policy_page,
    ROOT / "docs" / "benchmarks.md": benchmarks.page,
    ROOT / "docs" / "noise.svg": picture.picture,
    follow.PAGE: follow.page,
}


def main(argv: list[str]) -> int:
    """Run a task by its name."""
    if argv != ["docs"]:
        print("usage: python -m tests.tasks docs", file=sys.stderr)
        return 2
    from tests.docs import transcripts

    for path, text in GENERATED.items():
        path.write_text(text(), "utf-8")
    transcripts.rewrite()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`%load_ext dpquery.notebook`: cells of a notebook that are questions.

The first line of a cell names the session, `%%dpquery session --eps 0.5`; the rest is SQL, in
which `:name` and `$name` stand for variables of the notebook.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from dpquery.core.source_text import Source
from dpquery.sql.parse.parameters import with_values


class _Parser(ArgumentParser):
    """Reads the first line of a cell, and ends no process."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; write {self.format_usage().removeprefix('usage: ')}")


def _parser() -> ArgumentParser:
    parser = _Parser("%%dpquery", add_help=False, allow_abbrev=False)
    parser.add_argument("session")
    parser.add_argument("--eps", metavar="E")
    parser.add_argument("--delta", metavar="D")
    parser.add_argument("--to", metavar="NAME")
    parser.add_argument("--explain", action="store_true")
    return parser


class _Variables(Mapping[str, object]):
    """Those of the notebook: whichever a cell names, and none that is left over."""

    def __init__(self, names: Mapping[str, object]) -> None:
        self._names = names

    def __getitem__(self, name: str) -> object:
        return self._names[name]

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def ask(line: str, cell: str, names: dict[str, Any]) -> Any:
    """Ask a cell, and return its answer, which shows what it lost and what is left.

    Args:
        line: the session's name; `--eps` and `--delta` for plain aggregates, `--to` the name
            that the answer is given, `--explain` for the price, which is free.
        cell: one statement.
        names: the variables of the notebook.

    Raises:
        ValueError: the line is not understood, or names no session.
        QueryRefused: as of `Session.sql`.
    """
    options: Namespace = _parser().parse_args(line.split())
    session: Any = names.get(options.session)
    if not callable(getattr(session, "explain", None)):
        made = f'{options.session} = dpquery.connect("policy.toml")'
        raise ValueError(f"there is no session {options.session}: {made}")
    text = with_values(Source(cell), _Variables(names)).text
    asked = session.explain if options.explain else session.sql
    answer = asked(text, eps=options.eps, delta=options.delta)
    if options.to is not None:
        names[options.to] = answer
    return answer


def load_ipython_extension(ipython: Any) -> None:
    """Make `%%dpquery` known to a notebook."""

    def dpquery(line: str, cell: str) -> Any:
        return ask(line, cell, ipython.user_ns)

    dpquery.__doc__ = ask.__doc__
    ipython.register_magic_function(dpquery, "cell", "dpquery")

"""`dpquery.count`, `dpquery.median` and so on: DP_ calls for the builder, written in Python.

They are made from the registry: a function that is registered is here under its own name and
its aliases, without `DP_`. Nothing is checked here; the call becomes text, and binding decides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from inspect import Parameter, Signature

from dpquery import functions
from dpquery.errors import shown
from dpquery.functions.base import DPFunction
from dpquery.sql.fragments import Place, Written, joined, read_fragment
from dpquery.sql.names import written_name
from dpquery.sql.values import misfit, written_setting

__all__ = ["Aggregate", "Maker", "find", "names", "shut"]


def shut(text: object, place: Place, taker: str) -> Written:
    """Write an expression so that nothing around it can be read as a part of it."""
    fragment = read_fragment(text, place, taker)
    return Written((fragment,)) if fragment.closed else Written(("(", fragment, ")"))


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One DP_ call: what it asks about, and its options by name."""

    function: DPFunction
    name: str
    arguments: tuple[object, ...]
    distinct: bool
    options: tuple[tuple[str, object], ...]
    conditions: tuple[object, ...] = ()

    def where(self, *conditions: str) -> Aggregate:
        """Ask only about rows for which all conditions are true: FILTER (WHERE ...)."""
        return replace(self, conditions=self.conditions + conditions)

    def written(self) -> Written:
        """Give the call as text.

        Raises:
            QueryRefused: an argument is not one expression, or a value has no literal.
        """
        parts = [self.subject()] if self.arguments or self.function.star else []
        parts += [Written((written_setting(value),)) for value in self.arguments[1:]]
        parts += [
            Written((f"{written_name(option)}={_setting(option, value)}",))
            for option, value in self.options
        ]
        call = Written((f"{self.name}(",)) + joined(", ", parts) + Written((")",))
        if not self.conditions:
            return call
        taker = f"{self._taker}().where"
        kept = [shut(text, Place.CONDITION, taker) for text in self.conditions]
        return call + Written((" FILTER (WHERE ",)) + joined(" AND ", kept) + Written((")",))

    def subject(self) -> Written:
        """Give what is asked about as text: all rows where nothing is said."""
        if not self.arguments:
            return Written(("*",))
        distinct = "DISTINCT " if self.distinct else ""
        return Written((distinct,)) + shut(self.arguments[0], Place.VALUE, self._taker)

    @property
    def _taker(self) -> str:
        return self.name.removeprefix("DP_").lower()


class Maker:
    """Makes calls of one function."""

    def __init__(self, function: DPFunction, name: str) -> None:
        self._function = function
        self._called = name
        self.__name__ = name.removeprefix("DP_").lower()
        self.__doc__ = f"{function.summary}\n\nIn SQL: {function.example}"
        self.__signature__ = _signature(function)

    def __call__(self, *about: object, distinct: object = None, **options: object) -> Aggregate:
        """Give a call; a text stands for an expression of rows, and options go by name."""
        arguments = about if distinct is None else (distinct, *about)
        return Aggregate(
            self._function,
            self._called,
            arguments,
            distinct is not None,
            tuple(options.items()),
        )

    def __repr__(self) -> str:
        return f"<dpquery.{self.__name__}{self.__signature__}>"


def _setting(option: str, value: object) -> str:
    """Write what an option is set to: a longer list than a pair would be data."""
    if isinstance(value, list | tuple) and len(value) != 2:
        title = f"{option} takes one value or a pair, not {shown(value)} of {len(value)}"
        raise misfit(title, f"{option}=(0, 100)")
    return written_setting(value)


def _signature(function: DPFunction) -> Signature:
    """Say what a function takes, for help() and completion."""
    by_position, by_name = Parameter.POSITIONAL_ONLY, Parameter.KEYWORD_ONLY
    about = Parameter("about", by_position, default="*" if function.star else Parameter.empty)
    parts = [about, *([Parameter("share", by_position)] if function.order else [])]
    if function.distinct:
        parts.append(Parameter("distinct", by_name, default=None))
    for option in function.parameters:
        needed = option.name == "eps"
        default = Parameter.empty if needed else None
        parts.append(Parameter(option.name, by_name, default=default))
    return Signature(parts)


_MAKERS = {
    name.removeprefix("DP_").lower(): Maker(function, name)
    for function in functions.ALL
    for name in (function.name, *function.aliases)
}


def find(name: str) -> Maker | None:
    """Give the function that makes calls of that name, in lower case and without DP_."""
    return _MAKERS.get(name)


def names() -> list[str]:
    """Give the names of all of them, sorted."""
    return sorted(_MAKERS)

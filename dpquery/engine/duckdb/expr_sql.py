"""Expressions and values as DuckDB's SQL: what each node means is fixed by the tree.

Every literal is printed anew and every number stands in a storage that holds it, so that no
default of DuckDB decides anything. The oracle of the tests computes the same meaning in plain
Python, and both give the same integers.

A double has one form: NaN is NULL, and a zero has no sign. Every text from `Values.value` has
it, and so do columns and literals. So values that compare equal are the same bytes, and it does
not matter which of two equal rows is kept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from datetime import date, datetime, time
from fractions import Fraction

from dpquery.core.types import INT64, UNKNOWN, WIDEST_EXACT, Interval, Kind, Type, decimal_value
from dpquery.engine.duckdb.quoting import duckdb_name, text
from dpquery.ir.expr import (
    Apply,
    Arithmetic,
    Code,
    ColumnRef,
    Compare,
    Constant,
    Expr,
    In,
    IsNull,
    Literal,
    Logic,
    Negate,
    Not,
    Operator,
    Scalar,
    Widen,
)
from dpquery.rowfunctions import named

MOST_PARTS = 16
"""Conditions that DuckDB may take apart: it holds each of them against each."""
NAN = "CAST('nan' AS DOUBLE)"
ZERO = "CAST('0.0' AS DOUBLE)"
SHORT_DIGITS = 18
"""Decimals of so many digits are held in 64 bits."""
_EXACT = frozenset({Kind.INTEGER, Kind.DECIMAL})


def parts_of(condition: Expr) -> int:
    """Return into how many conditions one can be taken apart at AND, OR and NOT."""
    found, pending = 0, [condition]
    while pending:
        match pending.pop():
            case Logic(parts=parts):
                pending += parts
            case Not(operand=operand):
                pending.append(operand)
            case _:
                found += 1
    return found


def as_one(condition: str) -> str:
    """Write a condition that DuckDB does not take apart, with the same truth, or NULL."""
    return cast(cast(condition, "INTEGER"), "BOOLEAN")


class Values(ABC):
    """Writes expressions; where columns come from is for others to say."""

    @abstractmethod
    def column(self, reference: ColumnRef) -> str:
        """Write a column in its domain."""

    def value(self, expr: Expr) -> str:
        """Write an expression; every operand is in brackets or atomic."""
        match expr:
            case ColumnRef():
                return self.column(expr)
            case Constant(known=False, number=number):  # no column is called so: EXPLAIN alone
                return f'"released value {number + 1}"'
            case Literal(value=value) | Constant(value=value):
                return constant(value, expr.type, expr.domain)
            case Widen():
                return self._widened(expr)
            case Negate() | Arithmetic() | Apply() if _may_be_nan(expr):
                return f"nullif({settled(self._number(expr))}, {NAN})"
            case Apply(type=type_):  # a double that is chosen among others has its form already
                made, chosen = self._applied(expr), named(expr.function).chosen(expr)
                return settled(made) if type_.kind is Kind.DOUBLE and not chosen else made
            case Negate():
                return self._negated(expr)
            case Arithmetic():
                return self._exact(expr)
        return self._condition(expr)

    def _condition(self, expr: Compare | Logic | Not | IsNull | In) -> str:
        match expr:
            case Compare(operator=operator, left=left, right=right):
                left_text, right_text = self._stored(left, right)
                return f"({left_text} {operator} {right_text})"
            case Logic(conjunction=conjunction, parts=parts):
                joint = " AND " if conjunction else " OR "
                made = "(" + joint.join(self.value(part) for part in parts) + ")"
                return as_one(made) if parts_of(expr) > MOST_PARTS else made
            case Not(operand=operand):
                return f"(NOT {self.value(operand)})"
            case IsNull(operand=operand):
                return f"({self.value(operand)} IS NULL)"
            case In(operand=operand, options=options):
                value, *inside = self._stored(operand, *options)
                return f"({value} IN ({', '.join(inside)}))"

    def _stored(self, *operands: Expr) -> list[str]:
        """Write numbers of one type in one storage, wide enough for all of them."""
        texts = [self.value(operand) for operand in operands]
        if operands[0].type.kind not in _EXACT:
            return texts
        wide = _widest([_held(operand) for operand in operands])
        return [cast(text_, wide) for text_ in texts]

    def _number(self, expr: Expr) -> str:
        """Write a double in which NaN may stand for NULL, as it does inside arithmetic.

        The sign of a zero in there decides about the sign of a zero alone. No operand is
        written twice, as `nullif` does it: texts would double at each level.
        """
        match expr:
            case Negate(operand=operand):
                return f"(-{self._number(operand)})"
            case Arithmetic(operator=Operator.DIVIDE, left=left, right=right):
                divisor = f"list_filter([{self._number(right)}], lambda v: v <> 0)[1]"
                if isinstance(right, ColumnRef | Literal):  # short, and much faster
                    divisor = f"nullif({self.value(right)}, 0)"
                return f"({self._number(left)} / {divisor})"
            case Arithmetic(operator=operator, left=left, right=right):
                return f"({self._number(left)} {operator} {self._number(right)})"
            case Apply() if _may_be_nan(expr):
                return self._applied(expr)
        return self.value(expr)

    def _applied(self, expr: Apply) -> str:
        """Write a row function, its exact numbers in storages that hold them."""
        function = named(expr.function)
        alike = [expr, *(one for one in expr.arguments if one.type == expr.type)]
        wide = _widest([_held(one) for one in alike]) if expr.type.kind in _EXACT else ""
        texts = []
        for argument in expr.arguments:
            if function.keeps_nan and argument.type.kind is Kind.DOUBLE:
                texts.append(self._number(argument))
                continue
            texts.append(self.value(argument))
            if argument.type.kind in _EXACT:
                texts[-1] = cast(
                    texts[-1], wide if argument.type == expr.type else _held(argument)
                )
        return function.sql(expr, *texts)

    def _exact(self, expr: Arithmetic) -> str:
        """Write an operation so that it cannot raise: in a storage that holds every result.

        Division by zero gives NULL, which is a pin of the connection.
        """
        target = _held(expr)
        if expr.type.kind is Kind.DECIMAL and expr.operator is Operator.MULTIPLY:
            return cast(self._product(expr.left, expr.right), target)
        wide = _operand_storage(expr, target)
        left, right = (cast(self.value(side), wide) for side in (expr.left, expr.right))
        result = f"({left} {expr.operator} {right})"
        return cast(result, target) if expr.type.kind is Kind.DECIMAL else result

    def _widened(self, expr: Widen) -> str:
        """Write a wider number; a double is the nearest one.

        DuckDB rounds twice from HUGEINT to DOUBLE, but once from a text.
        """
        operand = self.value(expr.operand)
        if expr.type.kind is Kind.DOUBLE and expr.operand.type.kind is Kind.INTEGER:
            held = _held(expr.operand)
            operand = cast(operand, "VARCHAR" if held == "HUGEINT" else held)
        return cast(operand, _held(expr))

    def _negated(self, expr: Negate) -> str:
        operand = self.value(expr.operand)
        if expr.type.kind is not Kind.DOUBLE:
            operand = cast(operand, _widest([_held(expr), _held(expr.operand)]))
        return f"(-{operand})"

    def _product(self, *factors: Expr) -> str:
        """Write factors in the narrowest decimals that hold them: widths add up.

        Of factors that fit 64 bits DuckDB makes a product that has to fit them too, or raises;
        one digit more in a factor, and it has its full width.
        """
        left, right = (decimal_storage(side.type.scale, side.domain) for side in factors)
        if _digits(left) <= SHORT_DIGITS < _digits(left) + _digits(right):
            left = f"DECIMAL({SHORT_DIGITS + 1}, {factors[0].type.scale})"
        return f"({cast(self.value(factors[0]), left)} * {cast(self.value(factors[1]), right)})"


def _may_be_nan(expr: Negate | Arithmetic | Apply) -> bool:
    """Return whether the text of a double can be NaN, which has to become NULL."""
    if expr.type.kind is not Kind.DOUBLE or not isinstance(expr, Apply):
        return expr.type.kind is Kind.DOUBLE
    function = named(expr.function)
    return function.makes_nan or function.keeps_nan


def settled(number: str) -> str:
    """Write a double whose zero has no sign: -0.0 + 0.0 is 0.0, and nothing else changes.

    >>> settled("x")
    "(x + CAST('0.0' AS DOUBLE))"
    """
    return f"({number} + {ZERO})"


def _held(expr: Expr) -> str:
    return storage(expr.type, expr.domain)


def _operand_storage(expr: Arithmetic, target: str) -> str:
    """Return the storage that holds the result, both operands, and what lies between."""
    held = [target, _held(expr.left), _held(expr.right)]
    if expr.operator is Operator.REMAINDER and not expr.right.domain.within(0, WIDEST_EXACT):
        # The least BIGINT % -1 raises: DuckDB divides, and the quotient is no BIGINT.
        held.append(storage(expr.type, -expr.left.domain))
    return _widest(held)


def constant(value: Scalar | None, type_: Type, domain: Interval) -> str:
    """Write a value so that DuckDB reads exactly it, in the type meant.

    >>> constant(3, Type(Kind.INTEGER), Interval.point(3))
    'CAST(3 AS BIGINT)'
    >>> constant(Fraction(1, 10), Type(Kind.DOUBLE), Interval.point(Fraction(1, 10)))
    "CAST('0.1' AS DOUBLE)"
    >>> constant(Fraction(-1, 10**400), Type(Kind.DOUBLE), Interval.point(0))
    "CAST('0.0' AS DOUBLE)"
    """
    match value:
        case None:
            return cast("NULL", storage(type_, domain))
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return text(value)
        case datetime():
            return cast(text(value.isoformat(sep=" ")), duckdb_name(type_))
        case time():
            return cast(text(value.isoformat()), "TIME")
        case date():
            return f"CAST({text(value.isoformat())} AS DATE)"
    if type_.kind is Kind.DOUBLE:
        nearest = float(value) + 0.0  # of a tiny negative number it is -0.0
        return f"CAST({text(repr(nearest))} AS DOUBLE)"
    if type_.kind is Kind.DECIMAL:
        scaled = int(Fraction(value) * 10**type_.scale)
        digits = format(decimal_value(scaled, type_.scale), "f")
        return cast(text(digits), decimal_storage(type_.scale, domain))
    return cast(str(int(value)), storage(type_, domain))


def place_sql(value: str, code: Code) -> str:
    """Write which of some listed values it is."""
    listed = (
        f"WHEN {listed_sql(each, code.expr.type)} THEN {place}"
        for place, each in enumerate(code.values)
    )
    return f"CASE {value} {' '.join(listed)} END"


def listed_sql(value: Scalar | None, type_: Type) -> str:
    """Write one of some listed values, in the storage that it needs by itself."""
    domain = Interval.point(value) if isinstance(value, int | Fraction) else UNKNOWN
    return constant(value, type_, domain)


def storage(type_: Type, domain: Interval) -> str:
    """Return the DuckDB type that holds every value of a type and range."""
    if type_.listed:
        return f"{storage(replace(type_, listed=False), domain)}[]"
    match type_.kind:
        case Kind.INTEGER if not domain.within(*INT64):
            return "HUGEINT"
        case Kind.DECIMAL:
            return decimal_storage(type_.scale, domain)
    return duckdb_name(type_)


def decimal_storage(scale: int, domain: Interval) -> str:
    """Return the narrowest decimal type for a range; a range without ends gets the widest."""
    if domain.low is None or domain.high is None:
        return f"DECIMAL(38, {scale})"
    largest = max(abs(domain.low), abs(domain.high)) * 10**scale
    whole = -(-largest.numerator // largest.denominator)
    return f"DECIMAL({max(len(str(whole)), scale, 1)}, {scale})"


def _widest(storages: list[str]) -> str:
    """Pick the storage that holds the values of all: the longest decimal, or HUGEINT."""
    if storages[0].startswith("DECIMAL"):
        return max(storages, key=_digits)
    return "HUGEINT" if "HUGEINT" in storages else "BIGINT"


def _digits(storage_: str) -> int:
    return int(storage_[len("DECIMAL(") : storage_.index(",")])


def cast(text_: str, storage_: str) -> str:
    """Write a cast that the plan has shown to succeed for every value."""
    return f"CAST({text_} AS {storage_})"

"""A plan as the corpus states it: what is charged, what is scanned, which columns come back."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpquery.core.privacy_events import (
    Approximate,
    BoundedRange,
    Composed,
    Event,
    Gaussian,
    Pure,
    Refined,
)
from dpquery.core.types import Kind, Type
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
    Widen,
)
from dpquery.ir.measures import (
    Candidates,
    CountRows,
    CountUnits,
    CountValues,
    Histogram,
    Measure,
    SumCodes,
    SumProducts,
    SumValues,
    TableWeight,
    UnitTotals,
)
from dpquery.ir.query import Key, Scan, combinations, leading
from dpquery.ir.relations import (
    Filter,
    Output,
    PerUnit,
    Project,
    PublicJoin,
    Relation,
    SemiJoin,
    UnionAll,
    UnitAggregate,
    UnitJoin,
    Unnest,
    WindowColumn,
    Windowed,
    WindowFunction,
    only_table,
)
from dpquery.plan.plan import Plan


def described(plan: Plan) -> str:
    """Return the lines of an expectation."""
    lines = [f"charge: {charged(event)}" for event in plan.charge.events] or ["charge: none"]
    for frontier in plan.frontiers:
        lines += [f"scan: {scanned(frontier.scan, m)}" for m in frontier.scan.measures]
    for search in plan.searches:
        lines.append(f"first: {scanned(search.scan, search.release.measure)}")
    lines.append("columns: " + ", ".join(column.name for column in plan.above.columns))
    shown = plan.above.sql
    if "(" in shown or not shown.endswith(' FROM "f0" ORDER BY "f0"."row"'):
        lines.append(f"above: {shown}")
    for name, end in plan.above.ends:
        which = "high" if end.high else "low"
        lines.append(f"{name}: {which} end of f{end.frontier}.{end.column} at {end.confidence}")
    return "\n".join(lines)


def charged(event: Event) -> str:
    match event:
        case Pure(epsilon) | BoundedRange(epsilon):  # which of them: tests of its mechanism
            return f"pure {epsilon}"
        case Gaussian(_, epsilon, delta):
            return f"gaussian {epsilon} {delta}"
        case Approximate(epsilon, delta):
            return f"approximate {epsilon} {delta}"
        case Refined(before, after):
            return f"refined {before} {after}"
        case Composed(parts):
            return " + ".join(map(charged, parts))


def scanned(scan: Scan, measure: Measure) -> str:
    parts = [written(scan.relation)]
    parts += [f"where {text(c)}" for c in conditions(scan.relation)]
    together = ([scan.keys[i] for i in places] for places in leading(scan.keys))
    parts += [f"by {grouped(keys)}" for keys in together]
    parts += [f"k {measure.weight.limit}", f"W {measure.weight.scale}"]
    parts += ["of the table"] if isinstance(measure.weight, TableWeight) else []
    asked = measured(measure)
    if measure.condition is not None:
        asked += f" where {text(measure.condition)}"
    return ", ".join([*parts, asked])


def written(relation: Relation) -> str:
    """Write a relation; what only filters a table is that table, its conditions apart."""
    if (table := only_table(relation)) is not None:
        return table.table
    match relation:
        case Filter(source=source, condition=condition):
            return f"{nested(source)} where {text(condition)}"
        case Project(source=source, outputs=outputs):
            return f"({nested(source)}) as {columns(outputs)}"
        case PublicJoin(source=source, table=table_name, condition=condition, keeps=keeps):
            kind = "left join" if keeps else "join"
            table_name += f" (up to {relation.most} rows)" if relation.most > 1 else ""
            return f"{nested(source)} {kind} public {table_name} on {text(condition)}"
        case Unnest(source=source, values=values, separator=separator, most=most, keeps=keeps):
            parts = f"{text(values[0].expr)} at {separator!r} (at most {most} parts)"
            parts += " or NULL" if keeps else ""
            listed = ", ".join(text(value.expr) for value in values)
            return f"{nested(source)} each of {parts if separator else f'[{listed}]'}"
        case UnitJoin(left=left, right=right, condition=condition):
            sides = {(True, True): "full ", (True, False): "left ", (False, True): "right "}
            kind = sides.get((relation.keeps_left, relation.keeps_right), "")
            on = "" if condition is None else f" and {text(condition)}"
            limit = "" if relation.pairs is None else f" (at most {relation.pairs} pairs)"
            return f"({nested(left)} {kind}join {nested(right)} on the unit{on}{limit})"
        case SemiJoin(source=source, other=other, condition=condition):
            kind = "anti" if relation.negated else "semi"
            on = "" if condition is None else f" on the unit and {text(condition)}"
            limit = "" if relation.pairs is None else f" (at most {relation.pairs} pairs)"
            return f"({nested(source)} {kind} join {nested(other)}{on}{limit})"
        case UnionAll(parts=parts):
            arms = (f"{nested(part)} as {columns(outputs)}" for part, outputs in parts)
            return f"({' union all '.join(arms)})"
        case PerUnit(source=source, keys=keys, aggregates=aggregates):
            made = [aggregated(one) for one in aggregates]
            return f"({nested(source)} per unit {columns(keys)}{' '.join(['', *made])})"
        case Windowed(source=source, columns=found):
            return f"({nested(source)} with {' '.join(windowed(one) for one in found)})"
    raise AssertionError(relation)


def nested(relation: Relation) -> str:
    """Write a relation inside another, with its conditions."""
    parts = [written(relation)]
    if only_table(relation) is not None:
        parts += [f"where {text(c)}" for c in conditions(relation)]
    return " ".join(parts)


def columns(outputs: tuple[Output, ...]) -> str:
    return "[" + ", ".join(f"{output.name} {text(output.expr)}" for output in outputs) + "]"


def aggregated(one: UnitAggregate) -> str:
    argument = "*" if one.argument is None else text(one.argument)
    kept = "" if one.condition is None else f" where {text(one.condition)}"
    return f"{one.name} {one.function}({argument}{kept})"


def windowed(one: WindowColumn) -> str:
    if one.aggregate is not None:
        return aggregated(one.aggregate)
    order = [f"{text(key.expr)}{' desc' if key.descending else ''}" for key in one.order]
    argument = "" if one.argument is None else f"{text(one.argument)}, {one.offset}"
    argument = str(one.offset) if one.function is WindowFunction.NTILE else argument
    parts = [text(part) for part in one.parts]
    return (
        f"{one.name} {one.function}({argument}) over ({', '.join(parts)}; {', '.join(order)})"
    )


def grouped(keys: Sequence[Key]) -> str:
    """Write a key and its values; of many values, the first, the last, and their number.

    Keys that stand together are written with their combinations.
    """
    key, *beside = keys
    if key.finding is not None:
        rest = " and a rest" if key.rest else ""
        return (
            f"{'/'.join(text(one.expr) for one in keys)} as f{key.finding.frontier} finds{rest}"
        )
    values = list(map(str, key.values))
    if beside:
        values = ["/".join(map(str, one)) for one in combinations(keys)]
    if len(values) > 8:
        values = [f"{values[0]} to {values[-1]} ({len(values)})"]
    return f"{'/'.join(text(one.expr) for one in keys)} in {', '.join(values)}"


def measured(measure: Measure) -> str:
    match measure:
        case CountRows():
            return "count_rows"
        case CountUnits():
            return "count_units"
        case SumValues(code=code, degree=degree):
            return f"sum_values {coded(code)}" + (f" ^ {degree}" if degree > 1 else "")
        case SumCodes(code=code, degree=degree):
            return f"sum_grid {coded(code)}" + (f" ^ {degree}" if degree > 1 else "")
        case SumProducts(factors=factors):
            return f"sum_grid {' * '.join(map(coded, factors))}"
        case Histogram(code=code):
            return f"histogram {coded(code)}"
        case UnitTotals(code=code, low=low, high=high):
            what = "rows" if code is None else coded(code)
            return f"totals of {what} clamped to [{low}, {high}]"
        case CountValues(value=value):
            return f"count_values {text(value)}"
        case Candidates(told=told):
            return f"candidates {'/'.join(map(text, told))}"


def coded(code: Code) -> str:
    """Write a code: the grid, the clamp in steps of it, and the origin where it is not 0."""
    if code.values:
        return f"{text(code.expr)} in {', '.join(map(str, code.values))}"
    origin = f" from {code.origin}" if code.origin else ""
    return f"{text(code.expr)} / {code.grid} in {code.low} to {code.high}{origin}"


def conditions(relation: Relation) -> list[Expr]:
    if isinstance(relation, Filter) and only_table(relation) is not None:
        return [*conditions(relation.source), relation.condition]
    return []


def _shown(value: object, type_: Type) -> object:
    exact = isinstance(value, int | Fraction)
    return repr(float(value)) if exact and type_.kind is Kind.DOUBLE else value


def text(expr: Expr) -> str:
    """Write an expression with every bracket and every type that is not a column's own."""
    match expr:
        case ColumnRef(name=name):
            return name
        case Literal(value=value, type=type_):
            return f"{type_.kind.value} {_shown(value, type_)}"
        case Constant(number=number):
            return f"released {number}"
        case Widen(operand=operand, type=type_):
            return f"{type_.kind.value}({text(operand)})"
        case Negate(operand=operand):
            return f"(-{text(operand)})"
        case (
            Arithmetic(operator=operator, left=left, right=right)
            | Compare(operator=operator, left=left, right=right)
        ):
            return f"({text(left)} {operator} {text(right)})"
        case Logic(conjunction=conjunction, parts=parts):
            return "(" + (" and " if conjunction else " or ").join(map(text, parts)) + ")"
        case Not(operand=operand):
            return f"not {text(operand)}"
        case IsNull(operand=operand):
            return f"({text(operand)} is null)"
        case Apply(function=function, arguments=arguments):
            return f"{function.lower()}({', '.join(map(text, arguments))})"
        case In(operand=operand, options=options):
            return f"({text(operand)} in {', '.join(map(text, options))})"

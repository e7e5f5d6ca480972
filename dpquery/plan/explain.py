"""What EXPLAIN says of a plan: made from query, policy and ledger, so it costs nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, compress
from math import prod

from dpquery.answer import Guarantee
from dpquery.budget.accountant import NOTHING, Spent, additive, basic
from dpquery.budget.limits import Standing
from dpquery.core import html
from dpquery.core.privacy_events import Event
from dpquery.core.privacy_loss import Loss, Neighbours, decimal_text
from dpquery.core.source_text import visible_lines, width
from dpquery.core.text_table import value_text
from dpquery.core.types import BOOLEAN, Interval
from dpquery.functions.base import Facts, Step
from dpquery.functions.quantize import from_code
from dpquery.functions.rollup_sums import SumRelease
from dpquery.ir.expr import Code, ColumnRef, columns_of
from dpquery.ir.measures import Candidates, CountUnits, Measure, UnitTotals
from dpquery.ir.query import Call, Contribution, Scan, Wanted, leading
from dpquery.ir.relations import (
    PerUnit,
    PublicJoin,
    Relation,
    TableScan,
    Unnest,
    sources,
    tables_of,
)
from dpquery.plan.answer_notes import copies_of, notes_of
from dpquery.plan.auto_bounds import Search, limited, planned
from dpquery.plan.plan import FrontierPlan, Plan, PlannedRelease, guarantee_of
from dpquery.plan.touched_partitions import is_apart
from dpquery.policy.model import Policy
from dpquery.rowfunctions.analysis.ranges import implied

WIDTH = 78
"""Cells that a line may fill: what a terminal of 80 columns shows of a table."""
_INDENT = 13
_PIECE = re.compile(r"""\s*(?:'[^']*'|"[^"]*"|[^\s'"])+|\s*['"]""")
"""A word with the blanks before it; what stands in quotes is part of a word."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a query would lose, and how it would be answered."""

    charge: Loss
    steps: tuple[Step, ...]
    lines: tuple[str, ...]
    guarantee: Guarantee
    """Whose rows may differ, and the loss if they do; `for_group` says it of several units."""
    events: tuple[Event, ...] = ()
    """What would be charged, one for each release."""

    def __str__(self) -> str:
        return visible_lines("\n".join(self.lines))

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the price and each call, and all lines on demand."""
        calls = [
            (one.function, one.mechanism, decimal_text(one.epsilon), one.expected_error)
            for one in self.steps
        ]
        table = html.table(("call", "mechanism", "ε", "error, 95 times in 100"), calls)
        told = html.folded("all that EXPLAIN says", str(self))
        about = {"guarantee": self.guarantee} if calls else {}
        return html.facts(f"costs {self.charge}", about, table if calls else "", told)


def explain(
    plan: Plan,
    policy: Policy,
    scans: Sequence[str],
    standing: Standing,
    *,
    answered: bool = False,
    failed: int = 0,
) -> Explanation:
    """Describe a plan.

    Args:
        plan: the plan.
        policy: the policy it was made under.
        scans: what the engine would run, one text per frontier.
        standing: the limit that binds, as it stands.
        answered: whether all of it was answered before, and would be again.
        failed: how many statements of the analyst count as failed.
    """
    events = () if answered else plan.charge.events
    charge, asked = basic(events), additive(events)
    drawn = [
        [_step(one, frontier.scan, policy) for one in frontier.releases]
        for frontier in plan.frontiers
    ]
    found = [search.release.step() for search in plan.searches]
    steps = (*chain(*drawn), *found)
    paid = "nothing" if answered else f"{charge}{_split(steps)}"
    lines = [*_understood(plan), f"charge       {paid}"]
    guarantee = guarantee_of(plan, policy)
    if plan.charge.scans:
        lines.append(f"guarantee    {guarantee}")
    for search, step in zip(plan.searches, found, strict=True):
        lines += _search(search, step)
    for frontier, of_calls in zip(plan.frontiers, drawn, strict=True):
        lines += _frontier(frontier, of_calls, policy)
    lines += [*(f"note         {note}" for note in notes_of(plan)), *_parts(plan, policy)]
    most, rest = policy.budget.max_epsilon_per_query, _rest(standing, asked)
    if most is not None and charge.epsilon > most:
        rest = f"one query may spend {decimal_text(most)}, too little for it"
    lines.append(f"budget       {decimal_text(standing.left.epsilon)} left; {rest}")
    if failed:
        said = f"{failed} of {policy.limits.max_failures} statements failed within 24 hours"
        lines.append(f"failures     {said}; after the last, nothing is read")
    read = (frontier.draws for frontier in plan.frontiers)
    lines += [f"scan         {sql}" for sql in compress(scans, read)]
    if not policy.published:
        lines = [line.replace("from the policy)", "from the options)") for line in lines]
    wrapped = tuple(part for line in lines for part in _wrapped(line))
    return Explanation(charge, steps, wrapped, guarantee, events)


def _understood(plan: Plan) -> Iterator[str]:
    """Return the query with the calls that its plain aggregates mean, if it has any."""
    if plan.checked.understood:
        yield f"understood   {' '.join(plan.checked.understood.split())}"


def _parts(plan: Plan, policy: Policy) -> Iterator[str]:
    """Say on which units the charge is, where a table has parts."""
    touched, weighed = plan.charge.touched, plan.charge.if_weighed
    if touched is not None and not touched.whole:
        if not is_apart(touched, policy):
            yield "charged on   everybody; a query about one part alone is charged on it"
        else:
            yield f"charged on   {touched.named}: {touched.told}"
    elif weighed is not None:
        less = f"with weights='table' in each call, on {weighed.named} alone"
        yield f"charged on   everybody; {less}"
    else:
        read = (
            policy.tables[one.table]
            for scan in plan.charge.scans
            for one in tables_of(scan.relation)
        )
        for table in dict.fromkeys(one.name for one in read if one.parting is not None):
            yield f"charged on   everybody, whatever their part of {table}"


def _rest(standing: Standing, asked: Spent) -> str:
    if standing.frozen and asked != NOTHING:
        return f"frozen {standing.frozen}: no query is charged"
    if not standing.admits(asked):
        return "too little for it"
    if asked.loss.delta > standing.left_of_delta:
        return f"delta {decimal_text(standing.left_of_delta)} left, too little for it"
    after = replace(standing, total=standing.total + asked)
    return f"{decimal_text(after.left.epsilon)} after it"


def _split(steps: Sequence[Step]) -> str:
    """Return what each call takes of the charge, where there are several."""
    steps = [step for step in steps if step.epsilon]  # others are added up from these
    parts = " + ".join(f"{decimal_text(step.epsilon)}{_refining(step)}" for step in steps)
    return f" = {parts}" if len(steps) > 1 else "".join(map(_refining, steps))


def _refining(step: Step) -> str:
    """Say of which earlier answer a step takes the place, where it does."""
    return f" (refines the answer at {step.refines})" if step.refines else ""


def _wrapped(line: str) -> Iterator[str]:
    """Break a long line at blanks outside of quotes; what follows stands below its text."""
    pieces = _PIECE.findall(line)
    part = pieces[0]
    for piece in pieces[1:]:
        if width(part) + width(piece) > WIDTH and part.strip():
            yield part
            part = " " * _INDENT + piece.lstrip()
        else:
            part += piece
    yield part


def _search(search: Search, step: Step) -> Iterator[str]:
    yield f"first        {step.function}, {search.release.where}"
    yield f"  mechanism  {step.mechanism}, for a loss of {decimal_text(step.epsilon)}"
    yield f"  one unit   changes it by at most {step.sensitivity}"
    yield f"  noise      {step.noise_scale}"
    yield f"  error      {step.expected_error}"
    yield "  kept       in the ledger: free for later calls of this analyst"


def _frontier(frontier: FrontierPlan, steps: Sequence[Step], policy: Policy) -> Iterator[str]:
    tables = dict.fromkeys(one.table for one in tables_of(frontier.scan.relation))
    yield f"table        {', '.join(tables)}"
    for way in (policy.tables[name].through for name in tables):
        if way is not None:
            yield f"of           every unit that claims a row by {way}"
    yield f"unit         {_unit(frontier.scan.contribution)}; neighbours {policy.neighbours}"
    if frontier.keys:
        yield f"groups       {_groups(replace(frontier.scan, keys=frontier.keys))}"
    if frontier.shown is not None:
        yield f"beside       what is in none of them: {frontier.scan.cells:,} groups are drawn"
    for one, step in zip(frontier.releases, steps, strict=True):
        yield from _release(one, step, frontier.scan, policy)


def _unit(contribution: Contribution) -> str:
    if contribution.unit is None:
        return "each row"
    if contribution.single:
        return f"{contribution.unit}, one row each (declared)"
    return contribution.unit


def _groups(scan: Scan) -> str:
    together = [[scan.keys[i] for i in places] for places in leading(scan.keys)]
    read = [columns_of(*(key.expr for key in keys)).values() for keys in together]
    names = [", ".join(column.name for column in columns) for columns in read]
    sizes = [keys[0].size for keys in together]
    counts = " x ".join(f"{n} of {name}" for n, name in zip(sizes, names, strict=True))
    listed = f" ({counts})" if len(sizes) > 1 else f" of {names[0]}"
    if any(key.finding is not None for key in scan.keys):
        public = [
            name for keys, name in zip(together, names, strict=True) if keys[0].finding is None
        ]
        each = f", each with all of {' x '.join(public)}" if public else ""
        return f"at most {scan.cells:,}{listed}: those that are found{each}"
    return f"{scan.cells:,}{listed}, all of them in the answer"


def _step(one: PlannedRelease, scan: Scan, policy: Policy) -> Step:
    """Describe a release; while it waits for a limit of rows, as so many times that limit k."""
    waiting = one.call.options.search is not None
    if one.call.options.rows_search is None:
        step = one.release.step(waiting=waiting)
        step = replace(step, why=step.why or one.why)
        copied = _copied(scan.relation, policy)[1]  # whether rows meet so many, only data tell
        known = policy.neighbours is Neighbours.ADD_REMOVE and not copied
        return step if known else replace(step, at_best="")
    call = limited(one.call, Interval.point(1))
    step = planned(call, Facts.of(scan, policy)).step(waiting=waiting)
    return replace(
        step,
        sensitivity=f"{step.sensitivity}, times k",
        noise_scale=f"{step.noise_scale}, times k",
        expected_error=f"{step.expected_error}, times k",
        at_best="",
    )


def _release(one: PlannedRelease, step: Step, scan: Scan, policy: Policy) -> Iterator[str]:
    call, groups = one.call, scan.contribution.groups
    yield call.text
    if isinstance(one.release, SumRelease):
        yield f"  added up   from {one.release.times:,} groups each, for no loss"
    else:
        yield f"  mechanism  {step.mechanism}, for a loss of {decimal_text(step.epsilon)}"
    if step.why:
        yield f"  because    {step.why}"
    if call.options.wanted is not None:
        yield f"  asked      {_wanted(call.options.wanted)}: the least eps is found"
    measure = one.release.measures[0]
    if call.options.search is not None:
        yield "  bounds     those that are found; the scan is shown for the widest"
    else:
        yield from _bounds_of(one)
    if isinstance(measure, UnitTotals):
        ends = f"{_end(measure, measure.low)} to {_end(measure, measure.high)}"
        yield f"  totals     {ends} of a unit in a group (from the query)"
    if measure.values:
        yield f"  values     {_shown(measure, call, groups)}"
    elif not step.weight.plain:
        scale = step.weight.scale.bit_length() - 1
        owner = _owners(measure.weight.limit, scan, policy)
        yield f"  weights    {_limit(measure, call, groups, owner)}, step 1/2^{scale}"
    elif step.weight.limit > 1:
        yield f"  weights    none: a unit may be in all {step.weight.limit} groups in full"
    yield f"  one unit   changes it by at most {step.sensitivity}"
    yield f"  noise      {step.noise_scale}"
    yield f"  error      {step.expected_error} (95 %)"
    if step.at_best:
        yield f"  no better  {step.at_best}"


def _wanted(wanted: Wanted) -> str:
    """Return which error a call asks for, as it may be read beside its own."""
    often = f"{decimal_text(100 * wanted.confidence)} times in 100"
    over = f", over {wanted.over:,} rows or more" if wanted.over else ""
    return f"no farther off than {decimal_text(wanted.error)}, {often}{over}"


def _bounds_of(one: PlannedRelease) -> Iterator[str]:
    """Return between which bounds each expression of a call is, and who said so."""
    call, measures = one.call, one.release.decisive
    for code in dict.fromkeys(code for measure in measures for code in measure.codes):
        if code.expr.type != BOOLEAN and not code.values:
            of = f"{call.snippet(call.about(code.expr).asked)} " if len(call.inputs) > 1 else ""
            yield f"  bounds     {of}{_bounds(code)} ({_bounding(call, code)})"


def _bounding(call: Call, code: Code) -> str:
    """Return what bounds the values of a call: the narrowest that is said of them."""
    options = call.options
    if options.bounds is not None:
        return "found before, and kept" if options.auto else "from the query"
    about = call.about(code.expr)
    own = implied(about.expr)
    if own & about.implied != own:
        return "from WHERE" if call.condition is None else "from WHERE and FILTER"
    if not isinstance(about.expr, ColumnRef):
        return "from the expression"
    return "from the policy" if about.expr.clamped else "from the column itself"


def _owners(limit: int, scan: Scan, policy: Policy) -> str:
    """Return how a limit of rows follows from the policy, and from joins that copy rows."""
    stated, joins = _copied(scan.relation, policy)
    if not joins or stated * prod(join.most for join in joins) != limit:
        return "from the policy"
    copies = ", ".join(f"times {copies_of(join)}" for join in joins)
    return f"{'1 row' if stated == 1 else f'{stated} from the policy'}, {copies}"


def _copied(relation: Relation, policy: Policy) -> tuple[int, list[PublicJoin | Unnest]]:
    """Return the policy's limit for the rows of a unit, and what multiplies it."""
    match relation:
        case TableScan(table=name):
            limit = policy.tables[name].max_rows_contributed
            return limit if isinstance(limit, int) else 1, []
        case PerUnit(one_row=True):
            return 1, []
        case PublicJoin(source=source, most=most) | Unnest(source=source, most=most) if (
            most > 1
        ):
            stated, joins = _copied(source, policy)
            return stated, [*joins, relation]
    parts = [_copied(part, policy) for part in sources(relation)]
    return max(parts, key=lambda part: part[0] * prod(join.most for join in part[1]))


def _limit(measure: Measure, call: Call, groups: int | None, owner: str) -> str:
    """Return what counts in full, and who said so: the policy may state a limit of groups."""
    limit, options = measure.weight.limit, call.options
    if options.rows_search is not None:
        return "k rows of a unit in full, as is found; the scan is shown for the largest k"
    if not isinstance(measure, CountUnits | UnitTotals):
        whose = owner if options.max_rows_contributed is None else "from the query"
        if options.auto_rows:
            return f"k = {limit} rows of a unit in full (found before, and kept)"
        among = ", of all its rows in the table" if options.of_table else ""
        return f"k = {limit} rows of a unit in full ({whose}){among}"
    whose = "from the query"
    if options.max_groups_contributed is None:
        asked = options.max_rows_contributed is not None
        whose = f"as many as rows, from the {'query' if asked else 'policy'}"
        if groups is not None and not asked:
            whose = "from the policy"
    return f"g = {limit} groups of a unit in full ({whose})"


def _shown(measure: Measure, call: Call, groups: int | None) -> str:
    """Return how many different values a unit shows, and who said so."""
    limit, options = measure.weight.limit, call.options
    asked = (options.max_rows_contributed, options.max_groups_contributed)
    whose = "from the policy" if asked == (None, None) else "from the query"
    if isinstance(measure, Candidates) and asked == (None, None) and groups is None:
        whose = "unless the query says more"
    chosen = (
        "by a keyed hash" if isinstance(measure, Candidates) else "as many in all as can be"
    )
    return f"at most {limit} of a unit, {chosen} ({whose})"


def _end(measure: UnitTotals, end: int) -> object:
    """Return an end of the range of a unit's totals, as a value."""
    code = measure.code
    return end if code is None else from_code(end, code.grid, code.expr.type)


def _bounds(code: Code) -> str:
    ends = (from_code(end, code.grid, code.expr.type) for end in (code.low, code.high))
    low, high = map(value_text, ends)
    return f"{low} to {high}, in {code.cells:,} steps"

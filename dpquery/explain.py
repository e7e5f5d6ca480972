"""What EXPLAIN says of a plan: made from query, policy and ledger, so it costs nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dpquery.budget.accountant import basic
from dpquery.functions.base import Step
from dpquery.functions.codes import from_code
from dpquery.ir import Code, Contribution, Histogram, Scan, SumCodes, columns_of, table_of
from dpquery.plan import FrontierPlan, Plan, PlannedRelease
from dpquery.policy.model import Policy
from dpquery.privacy import Loss, decimal_text
from dpquery.types import BOOLEAN

__all__ = ["Explanation", "explain"]


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a query would lose, and how it would be answered."""

    charge: Loss
    steps: tuple[Step, ...]
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.lines)


def explain(plan: Plan, policy: Policy, scans: Sequence[str], left: Loss) -> Explanation:
    """Describe a plan.

    Args:
        plan: the plan.
        policy: the policy it was made under.
        scans: what the engine would run, one text per frontier.
        left: what can still be spent.
    """
    charge = basic(plan.charge.events)
    steps = tuple(planned.release.step() for f in plan.frontiers for planned in f.releases)
    lines = [f"charge       {charge}"]
    for frontier, sql in zip(plan.frontiers, scans, strict=True):
        lines += _frontier(frontier, policy)
        lines.append(f"scan         {sql}")
    lines += [f"note         {note}" for note in plan.notes]
    after = left.epsilon - charge.epsilon
    rest = f"{decimal_text(after)} after it" if after >= 0 else "too little for it"
    lines.append(f"budget       {decimal_text(left.epsilon)} left; {rest}")
    return Explanation(charge, steps, tuple(lines))


def _frontier(frontier: FrontierPlan, policy: Policy) -> Iterator[str]:
    table = table_of(frontier.scan.relation).table
    yield f"table        {table}"
    yield f"unit         {_unit(frontier.scan.contribution)}; neighbours {policy.neighbours}"
    if frontier.scan.keys:
        yield f"groups       {_groups(frontier.scan)}"
    for planned in frontier.releases:
        yield from _release(planned)


def _unit(contribution: Contribution) -> str:
    if contribution.unit is None:
        return "each row"
    if contribution.single:
        return f"{contribution.unit}, one row each (declared)"
    return contribution.unit


def _groups(scan: Scan) -> str:
    names = [", ".join(columns_of(key.expr)) for key in scan.keys]
    sizes = [len(key.values) for key in scan.keys]
    counts = " x ".join(f"{n} of {name}" for n, name in zip(sizes, names, strict=True))
    return f"{scan.cells:,} ({counts}), all of them in the answer"


def _release(planned: PlannedRelease) -> Iterator[str]:
    step, call = planned.release.step(), planned.call
    yield call.text
    yield f"  mechanism  {step.mechanism}, for a loss of {decimal_text(step.epsilon)}"
    if step.why:
        yield f"  because    {step.why}"
    for measure in planned.release.measures:
        if isinstance(measure, SumCodes | Histogram) and measure.code.expr.type != BOOLEAN:
            whose = "policy" if call.options.bounds is None else "query"
            yield f"  bounds     {_bounds(measure.code)} (from the {whose})"
            break
    if not step.weight.plain:
        limit, scale = step.weight.limit, step.weight.scale
        whose = "policy" if call.options.max_rows_contributed is None else "query"
        yield f"  weights    {limit} row(s) of a unit in full (from the {whose}), in 1/{scale}"
    yield f"  moved by   {step.sensitivity}"
    yield f"  noise      {step.noise_scale}"
    yield f"  error      {step.expected_error} (95 %)"


def _bounds(code: Code) -> str:
    low, high = (from_code(end, code.grid, code.expr.type) for end in (code.low, code.high))
    return f"{low} to {high}, in {code.cells:,} steps"

"""The rules: an expression has a value for every row that the policy allows (I12)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from dataclasses import fields as dataclass_fields

import pytest

from dpquery.core.source_text import Source, Span
from dpquery.errors import RuleRefused
from dpquery.ir.expr import IsNull
from dpquery.ir.query import Call, Key
from dpquery.ir.walk import expressions_in
from dpquery.sql.binder import bind
from dpquery.sql.parse.parser import parse
from dpquery.sql.privacy_rules import RULES, check
from tests.corpus.cases import facts, planned, refusal

NOWHERE = Span(0, 0)

WORDING = [
    (
        "SELECT DP_COUNT(*, eps=0.5) FROM staff WHERE person_id * person_id > 10",
        """\
refused[DPQ305]: this arithmetic can overflow
  |
1 | SELECT DP_COUNT(*, eps=0.5) FROM staff WHERE person_id * person_id > 10
  |                                              ^^^^^^^^^^^^^^^^^^^^^ too large for some values

   why: an error that depends on one row would tell whether that row exists,
        and the bounds of these columns allow results of more than 37 digits.
   try: (1e0 * person_id) * (1e0 * person_id)
        this computes in doubles
        or ask the data owner for bounds""",
    ),
]


@pytest.mark.parametrize(("query", "text"), WORDING, ids=[q for q, _ in WORDING])
def test_a_refusal_reads_as_it_was_written(query: str, text: str):
    assert refusal(query) == text


def test_the_expressions_of_groups_are_checked_too():
    """A key that overflowed would fail on one row, as any other expression would (I12)."""
    policy, public = facts()
    query = "SELECT DP_COUNT(*, eps=1), DP_COUNT(person_id * person_id, eps=1) FROM staff"
    bound = bind(parse(Source(query)), policy, public)
    (frontier,) = bound.frontiers
    plain, product = frontier.calls
    assert product.argument is not None
    key = Key(product.span, "k0", product.argument, (1,))
    grouped = replace(frontier, calls=(plain,), keys=(key,))
    with pytest.raises(RuleRefused) as caught:
        check(replace(bound, frontiers=(grouped,)), policy)
    assert caught.value.code == "DPQ305"
    check(replace(bound, frontiers=(replace(grouped, keys=()),)), policy)


def test_no_argument_of_a_call_escapes():
    """A second argument that overflowed would fail on one row, as the first would (I12)."""
    policy, public = facts()
    query = "SELECT DP_SUM(age, eps=1), DP_COUNT(person_id * person_id, eps=1) FROM staff"
    bound = bind(parse(Source(query)), policy, public)
    (frontier,) = bound.frontiers
    plain, product = frontier.calls
    two = replace(plain, inputs=plain.inputs + product.inputs)
    with pytest.raises(RuleRefused) as caught:
        check(replace(bound, frontiers=(replace(frontier, calls=(two,)),)), policy)
    assert (caught.value.code, caught.value.span) == ("DPQ305", product.inputs[0].expr.span)
    check(replace(bound, frontiers=(replace(frontier, calls=(plain,)),)), policy)


@dataclass(frozen=True)
class _WithMore(Call):
    more: tuple[tuple[object, ...], ...] = ()


def test_nothing_hides_in_a_field_that_is_new():
    (release,) = planned("SELECT DP_SUM(age, eps=1) FROM staff").frontiers[0].releases
    call, hidden = release.call, IsNull(NOWHERE, release.call.inputs[0].expr)
    fields = {one.name: getattr(call, one.name) for one in dataclass_fields(call)}
    more = _WithMore(**fields, more=((1, hidden), ("a",)))
    assert list(expressions_in((more,))) == [call.inputs[0].expr, hidden]


def test_these_are_the_rules():
    assert [rule.__name__ for rule in RULES] == [
        "every_expression_is_total",
        "every_sum_of_a_unit_fits",
        "every_moment_has_a_calendar",
        "every_text_is_short",
        "every_scan_is_small",
    ]


@pytest.mark.parametrize(
    ("operation", "fits"),
    [
        ("person_id + person_id", True),
        ("person_id * 2", True),
        ("person_id * 1e0 * person_id", True),
        ("salary * salary", True),
        (" * ".join(["salary"] * 7), True),
        (" * ".join(["salary"] * 8), False),
        ("- " * 2 + "person_id", True),
        ("person_id * person_id", False),
        ("person_id * person_id // 2", False),
        ("person_id % 7 * (person_id % 7)", True),
        ("rating * 0.0000000000000000000000000000000001", True),
        ("rating * 0.000000000000000000000000000000000001 * 0.1", False),
    ],
)
def test_exact_arithmetic_is_accepted_as_far_as_its_public_range_fits(
    operation: str, fits: bool
):
    query = f"SELECT DP_COUNT(*, eps=0.1) FROM staff WHERE {operation} <> 1"
    if fits:
        planned(query)
        return
    with pytest.raises(RuleRefused) as caught:
        planned(query)
    assert caught.value.code == "DPQ305"


def test_every_place_of_an_expression_is_checked():
    overflow = "person_id * person_id"
    for query in (
        f"SELECT DP_COUNT({overflow}, eps=0.1) FROM staff",
        f"SELECT DP_COUNT(*, eps=0.1) FILTER (WHERE {overflow} > 1) FROM staff",
        f"SELECT DP_COUNT(*, eps=0.1) FROM staff WHERE NOT ({overflow} IN (1, 2))",
        f"SELECT DP_COUNT(*, eps=0.1) FROM staff WHERE age > 3 OR {overflow} IS NULL",
        f"SELECT DP_COUNT(*, eps=0.1) FROM staff ORDER BY DP_COUNT({overflow}, eps=0.1)",
    ):
        with pytest.raises(RuleRefused):
            planned(query)

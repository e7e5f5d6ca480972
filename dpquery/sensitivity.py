"""How far one privacy unit can move each measure: the table of `calculus.md` 3, in code.

A property of the measures alone, so that functions and mechanisms need not know about weights.
The property tests hold every number here against enumeration.
"""

from __future__ import annotations

from dpquery.ir import CountRows, Measure

__all__ = ["sensitivity"]


def sensitivity(measure: Measure) -> int:
    """Give the largest change of a measure between neighbours, in units of 1/scale.

    Adding or removing a unit moves a weighted count by at most the unit's total weight.
    Replacing a unit removes one contribution in [0, total] and adds another, so the count
    moves by no more either: for one ungrouped count both relations give the same number. It
    bounds the change in the L1 and in the L2 norm.
    """
    match measure:
        case CountRows(weight=weight):
            return weight.total

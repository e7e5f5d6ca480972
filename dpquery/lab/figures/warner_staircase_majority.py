"""Answers of single persons, noise in steps, and majorities: exact laws, nothing is drawn."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

from dpquery.lab.figures.base import LOCAL, SLIDES, Figure, Line
from dpquery.mechanisms import DiscreteLaplace, DiscreteStaircase, Majority

ONE = Fraction(1)
STEP = 1000
"""Of noise in steps, so that it is nearly that of real numbers."""


def _warner(draws: int) -> Iterator[Line]:
    p = 0.3
    yes = 0.25 + p / 2
    yield Line("the epsilon of one answer", "ln 3", math.log(3))
    yield Line("2r - 1/2, the share of yes being r", "0.3", 2 * yes - 0.5)
    yield Line("2r - 1, as the slides have it", "0.3", 2 * yes - 1, "off by 1/2")
    ratio = 4 * yes * (1 - yes) / (p * (1 - p))
    yield Line("rows for the error of a direct poll, times", "about 4", ratio)
    noise = DiscreteLaplace.calibrated(1, Fraction(math.log(3)))
    square = 2 * math.fsum(k * k * noise.pmf(k) for k in range(1, 100))
    central = 1 + square / (1000 * p * (1 - p))
    why = "a count of 1,000 rows with noise, by somebody who is trusted"
    yield Line("the same, at the same epsilon, in dpquery", "", central, why)


def _staircase(draws: int) -> Iterator[Line]:
    for eps in (ONE, Fraction(2), Fraction(5)):
        e, b = float(eps), math.exp(-float(eps))
        noise = DiscreteStaircase.calibrated(STEP, eps)
        share = (b * (1 + b) / 2) ** (1 / 3) / (1 - b) - b / (1 - b)
        said = f"{share:.4f}"
        yield Line(f"width of the low part, epsilon {e:g}", said, noise.width / STEP)
        square = 2 * math.fsum(
            k * k * noise.pmf(k) for k in range(1, int(40 * STEP / e), 1)
        ) / STEP**2  # fmt: skip
        yield Line(f"variance over Laplace noise's, epsilon {e:g}", "", square * e * e / 2)
        height = (1 - b) / (2 * (share + b * (1 - share)))
        printed = 2 * height * (share + 1 / (1 - b))
        why = "the exponent of the high part is j + 1"
        yield Line(f"mass of the density as printed, epsilon {e:g}", "1", printed, why)
        lost, why = e + math.log(_masses(noise)), "the mass in range differs by value"
        yield Line(f"loss if drawn again until in range, epsilon {e:g}", f"{e:g}", lost, why)


def _masses(noise: DiscreteStaircase) -> float:
    """Return how much more of the noise stays in a range from its middle than from an end."""
    middle = math.fsum(noise.pmf(k) for k in range(-STEP // 2, STEP // 2 + 1))
    end = math.fsum(noise.pmf(k) for k in range(STEP + 1))
    return middle / end


def _majority(draws: int) -> Iterator[Line]:
    rule = Majority.calibrated(2, ONE, step=2)
    for r in (1, 2, 3):
        exponential = 1 / (1 + math.exp((2 * r - 1) / 2))
        why = "1 - exp(-r e) / (1 + exp(-e)): the best there is"
        said = f"{exponential:.3f}, {1 / (1 + math.exp(r)):.3f}"
        yield Line(f"wrong at margin {r}", said, 1 - rule.pmf(2 * r - 1), why)
    yield Line("right at 3 / epsilon from the middle", "0.95 or more", rule.pmf(6))


ALL = (
    Figure(
        "warner",
        LOCAL,
        "and the slides' doping survey",
        "everybody answers truly, or by a second coin: p = 0.3 of them would say yes",
        _warner,
    ),
    Figure(
        "staircase",
        LOCAL,
        "noise in steps",
        "noise in steps: its variance over that of Laplace noise, and what is drawn again",
        _staircase,
    ),
    Figure(
        "majority",
        SLIDES,
        "majority of binary observations",
        "2k + 1 votes, of which k + r are for it: how often the wrong side is named",
        _majority,
    ),
)

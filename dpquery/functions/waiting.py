"""What EXPLAIN says of a release whose bounds are found first.

Its plan is made for the widest bounds there could be. Amounts in values would be of these, so
they are given as shares of what is found; those in rows and ranks hold for any bounds, or are
the most that they can be.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from dpquery.functions.base import Release, Step
from dpquery.functions.chosen_mean import ChosenMeanRelease
from dpquery.functions.moments import BernsteinRelease
from dpquery.functions.noise import LEVEL, AdditiveRelease, significant, spread
from dpquery.functions.noisy_quantile import NoisyQuantileRelease
from dpquery.functions.quantile import QuantileRelease
from dpquery.ir import Call
from dpquery.mechanisms import AdditiveNoise
from dpquery.mechanisms.base import Distance
from dpquery.privacy import decimal_text

__all__ = ["step_of"]

_WIDTH = "the distance between the bounds"


def step_of(release: Release, call: Call) -> Step:
    """Describe the release of a call."""
    step = release.step()
    if call.options.search is None:
        return step
    match release:
        case AdditiveRelease():
            most = "what one unit can change between the bounds"
            return _in_terms_of(most, step, release.noise, release.distance)
        case NoisyQuantileRelease(mechanism=mechanism):
            return _in_terms_of(_WIDTH, step, mechanism.noise, mechanism.sensitivity)
        case BernsteinRelease():
            share = release.share / 1000
            error = release.shape.error(share, Fraction(1), f" times {_WIDTH}")
            return replace(step, expected_error=error)
        case QuantileRelease() if call.options.smooth is None:
            share = Fraction(release.steps_beside, max(release.measure.code.size, 1))
            return replace(
                step, expected_error=release.error(f"{_short(share)} times {_WIDTH}")
            )
        case ChosenMeanRelease():
            error = f"± {significant(release.share / 1000)} times {_WIDTH} over 1,000 rows"
            return replace(step, expected_error=error)
    return step


def _in_terms_of(most: str, step: Step, noise: AdditiveNoise, distance: Distance) -> Step:
    _, high = noise.interval(0, LEVEL)
    return replace(
        step,
        sensitivity=most,
        noise_scale=f"{_short(spread(noise) / Fraction(distance))} times as much",
        expected_error=f"± {_short(high / Fraction(distance))} times as much",
    )


def _short(number: Fraction) -> str:
    return decimal_text(Fraction(f"{float(number):.3g}"))

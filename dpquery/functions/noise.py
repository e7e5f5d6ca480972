"""Additive noise by name, calibrated to a sensitivity: shared by counts and sums."""

from __future__ import annotations

from fractions import Fraction

from dpquery.errors import Diagnostic, PlanRefused, internal
from dpquery.ir import Call
from dpquery.mechanisms import AdditiveNoise, DiscreteGaussian, DiscreteLaplace
from dpquery.mechanisms.base import root_above
from dpquery.source import Span

__all__ = ["ADDITIVE", "additive_noise", "spread"]

ADDITIVE = ("laplace", "gaussian")


def additive_noise(call: Call, distance: int) -> AdditiveNoise:
    """Make the noise that a call asks for, for a sensitivity in L1 and L2 alike.

    Raises:
        PlanRefused: DPQ403 the mechanism needs a delta, or has no use for the one given.
    """
    options = call.options
    if options.mechanism != "gaussian":
        if options.delta is not None:
            raise _needless(call.function, options.delta_span)
        return DiscreteLaplace.calibrated(distance, options.epsilon)
    if options.delta is None:
        raise PlanRefused(
            Diagnostic(
                "DPQ403",
                f"{call.function} with mechanism='gaussian' needs delta",
                options.mechanism_span,
                "delta is missing",
                ("Gaussian noise keeps its promise but for a small probability, delta.",),
                (
                    "add delta=1e-7 to the call, under a policy whose budget has a delta",
                    "or leave out mechanism=, which needs none",
                ),
            )
        )
    return DiscreteGaussian.calibrated(distance, options.epsilon, options.delta)


def _needless(function: str, span: Span | None) -> PlanRefused:
    return PlanRefused(
        Diagnostic(
            "DPQ403",
            f"{function} with mechanism='laplace' has no use for a delta",
            span,
            "this would be passed over",
            ("Laplace noise keeps its promise without exception, so no delta is spent on it.",),
            (
                "leave out delta=",
                "or add mechanism='gaussian', under a policy whose budget has a delta",
            ),
        )
    )


def spread(noise: AdditiveNoise) -> Fraction:
    """Give the scale of the noise as people know it: a Laplace scale, a standard deviation."""
    match noise:
        case DiscreteLaplace(scale=scale):
            return scale
        case DiscreteGaussian(sigma2=sigma2):
            return root_above(sigma2)
    raise internal("every additive noise has a scale to show")

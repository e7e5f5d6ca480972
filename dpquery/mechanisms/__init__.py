"""Mechanisms: integers in, integers out, each with a claim.

Usable alone: no SQL, no tables, no budgets, and importing this loads numpy and nothing
heavier. A mechanism exists for the rest of the engine, and for the conformance suite, by its
line in `ALL`.
"""

from dpquery.mechanisms.base import AdditiveNoise, Mechanism
from dpquery.mechanisms.discrete_gaussian import DiscreteGaussian
from dpquery.mechanisms.discrete_laplace import DiscreteLaplace
from dpquery.mechanisms.gap_quantile import GapQuantile
from dpquery.mechanisms.grid_quantile import GridQuantile, rank_range
from dpquery.mechanisms.independent_quantiles import IndependentQuantiles
from dpquery.mechanisms.noisy_quantile import NoisyQuantile
from dpquery.mechanisms.randomness import Randomness
from dpquery.mechanisms.recursive_quantiles import RecursiveQuantiles
from dpquery.mechanisms.smooth_quantile import SmoothQuantile
from dpquery.mechanisms.threshold_quantiles import ThresholdQuantiles, threshold_cost
from dpquery.mechanisms.tree_quantiles import TreeQuantiles

__all__ = [
    "ADDITIVE",
    "ALL",
    "AdditiveNoise",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "GapQuantile",
    "GridQuantile",
    "IndependentQuantiles",
    "Mechanism",
    "NoisyQuantile",
    "Randomness",
    "RecursiveQuantiles",
    "SmoothQuantile",
    "ThresholdQuantiles",
    "TreeQuantiles",
    "rank_range",
    "threshold_cost",
]

ADDITIVE: tuple[type[AdditiveNoise], ...] = (DiscreteLaplace, DiscreteGaussian)
"""Those that add noise of one law to each value: the suite examines the law itself."""

ALL: tuple[type[Mechanism], ...] = (
    *ADDITIVE,
    GapQuantile,
    GridQuantile,
    IndependentQuantiles,
    NoisyQuantile,
    RecursiveQuantiles,
    SmoothQuantile,
    ThresholdQuantiles,
    TreeQuantiles,
)

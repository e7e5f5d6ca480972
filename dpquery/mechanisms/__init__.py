"""Mechanisms: integers in, integers out, each with a claim.

Usable alone: no SQL, no tables, no budgets, and importing this loads numpy and nothing
heavier. A mechanism exists for the rest of the engine, and for the conformance suite, by its
line in `ALL`.
"""

from dpquery.mechanisms.base import AdditiveNoise, Mechanism
from dpquery.mechanisms.discrete_gaussian import DiscreteGaussian
from dpquery.mechanisms.discrete_laplace import DiscreteLaplace
from dpquery.mechanisms.grid_quantile import GridQuantile, rank_range
from dpquery.mechanisms.partition import PartitionSelection
from dpquery.mechanisms.randomness import Randomness

__all__ = [
    "ADDITIVE",
    "ALL",
    "AdditiveNoise",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "GridQuantile",
    "Mechanism",
    "PartitionSelection",
    "Randomness",
    "rank_range",
]

ADDITIVE: tuple[type[AdditiveNoise], ...] = (DiscreteLaplace, DiscreteGaussian)
"""Those that add noise of one law to each value: the suite examines the law itself."""

ALL: tuple[type[Mechanism], ...] = (*ADDITIVE, GridQuantile, PartitionSelection)

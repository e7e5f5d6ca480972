"""Mechanisms: integers in, integers out, each with a claim.

Usable alone: no SQL, no tables, no budgets, and importing this loads numpy and nothing
heavier. A mechanism exists for the rest of the engine, and for the conformance suite, by its
line in `ALL`.
"""

from dpquery.mechanisms.above_threshold import AboveThreshold
from dpquery.mechanisms.base import AdditiveNoise, Mechanism, PureNoise
from dpquery.mechanisms.bounded_mean import MeanExponential, MeanInverseSensitivity
from dpquery.mechanisms.exponential import FiniteExponential, PermuteAndFlip
from dpquery.mechanisms.gaussian import DiscreteGaussian
from dpquery.mechanisms.laplace import DiscreteLaplace, RefinedLaplace
from dpquery.mechanisms.majority import Majority
from dpquery.mechanisms.max_norm import MaxNorm
from dpquery.mechanisms.partition_selection import PartitionSelection
from dpquery.mechanisms.quantiles.exponential import GapQuantile, GridQuantile, rank_range
from dpquery.mechanisms.quantiles.fitted import FittedQuantiles
from dpquery.mechanisms.quantiles.independent import IndependentQuantiles
from dpquery.mechanisms.quantiles.inverse_sensitivity import SmoothQuantile
from dpquery.mechanisms.quantiles.joint import (
    JointQuantiles,
    SmoothedJointQuantiles,
    joint_move,
)
from dpquery.mechanisms.quantiles.output_perturbation import NoisyQuantile
from dpquery.mechanisms.quantiles.recursive import RecursiveQuantiles
from dpquery.mechanisms.quantiles.threshold_quantiles import ThresholdQuantiles, threshold_cost
from dpquery.mechanisms.quantiles.tree import TreeQuantiles
from dpquery.mechanisms.randomness import Randomness
from dpquery.mechanisms.staircase import DiscreteStaircase
from dpquery.mechanisms.top_k import FirstNoisyCount, LargestNoisyCounts, NoisyTop

__all__ = [
    "ADDITIVE",
    "ALL",
    "PURE",
    "AboveThreshold",
    "AdditiveNoise",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "DiscreteStaircase",
    "FiniteExponential",
    "FirstNoisyCount",
    "FittedQuantiles",
    "GapQuantile",
    "GridQuantile",
    "IndependentQuantiles",
    "JointQuantiles",
    "LargestNoisyCounts",
    "Majority",
    "MaxNorm",
    "MeanExponential",
    "MeanInverseSensitivity",
    "Mechanism",
    "NoisyQuantile",
    "NoisyTop",
    "PartitionSelection",
    "PermuteAndFlip",
    "PureNoise",
    "Randomness",
    "RecursiveQuantiles",
    "RefinedLaplace",
    "SmoothQuantile",
    "SmoothedJointQuantiles",
    "ThresholdQuantiles",
    "TreeQuantiles",
    "joint_move",
    "rank_range",
    "threshold_cost",
]

ADDITIVE: tuple[type[AdditiveNoise], ...] = (DiscreteLaplace, DiscreteGaussian)
"""Those that add noise of one law to each value: the suite examines the law itself."""

PURE: tuple[type[PureNoise], ...] = (DiscreteLaplace, DiscreteStaircase)
"""Those that counts and sums take by name, for an epsilon alone: the first is the default."""

ALL: tuple[type[Mechanism], ...] = (
    *ADDITIVE,
    DiscreteStaircase,
    MaxNorm,
    GridQuantile,
    FiniteExponential,
    PermuteAndFlip,
    NoisyTop,
    LargestNoisyCounts,
    FirstNoisyCount,
    Majority,
    AboveThreshold,
    MeanExponential,
    MeanInverseSensitivity,
    FittedQuantiles,
    GapQuantile,
    IndependentQuantiles,
    JointQuantiles,
    SmoothedJointQuantiles,
    NoisyQuantile,
    RecursiveQuantiles,
    SmoothQuantile,
    ThresholdQuantiles,
    TreeQuantiles,
    PartitionSelection,
)

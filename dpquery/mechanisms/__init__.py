"""Mechanisms: integers in, integers out, each with a claim.

Usable alone: no SQL, no tables, no budgets, and importing this loads numpy and nothing
heavier. A mechanism exists for the rest of the engine, and for the conformance suite, by its
line in `ALL`.
"""

from dpquery.mechanisms.above_threshold import AboveThreshold
from dpquery.mechanisms.base import AdditiveNoise, Mechanism
from dpquery.mechanisms.discrete_gaussian import DiscreteGaussian
from dpquery.mechanisms.discrete_laplace import DiscreteLaplace
from dpquery.mechanisms.discrete_staircase import DiscreteStaircase
from dpquery.mechanisms.finite_exponential import FiniteExponential
from dpquery.mechanisms.fitted_quantiles import FittedQuantiles
from dpquery.mechanisms.gap_quantile import GapQuantile
from dpquery.mechanisms.grid_quantile import GridQuantile, rank_range
from dpquery.mechanisms.independent_quantiles import IndependentQuantiles
from dpquery.mechanisms.joint_quantiles import (
    JointQuantiles,
    SmoothedJointQuantiles,
    joint_move,
)
from dpquery.mechanisms.majority import Majority
from dpquery.mechanisms.mean_selection import MeanExponential, MeanInverseSensitivity
from dpquery.mechanisms.noisy_histogram import FirstNoisyCount, LargestNoisyCounts
from dpquery.mechanisms.noisy_quantile import NoisyQuantile
from dpquery.mechanisms.noisy_top import NoisyTop
from dpquery.mechanisms.partition import PartitionSelection
from dpquery.mechanisms.permute_and_flip import PermuteAndFlip
from dpquery.mechanisms.randomness import Randomness
from dpquery.mechanisms.recursive_quantiles import RecursiveQuantiles
from dpquery.mechanisms.refined_laplace import RefinedLaplace
from dpquery.mechanisms.smooth_quantile import SmoothQuantile
from dpquery.mechanisms.threshold_quantiles import ThresholdQuantiles, threshold_cost
from dpquery.mechanisms.tree_quantiles import TreeQuantiles

__all__ = [
    "ADDITIVE",
    "ALL",
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
    "MeanExponential",
    "MeanInverseSensitivity",
    "Mechanism",
    "NoisyQuantile",
    "NoisyTop",
    "PartitionSelection",
    "PermuteAndFlip",
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

ALL: tuple[type[Mechanism], ...] = (
    *ADDITIVE,
    DiscreteStaircase,
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

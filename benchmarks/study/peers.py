"""Nine deciles beside other libraries, on salaries of which 30 % are identical.

Each library has the same rows, bounds, and epsilon for all nine together; what else it needs is
public too, and named. They come with the extra `peers`; those that are missing are left out.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from benchmarks.study.data import TOP, Column, Values, connect, draws
from benchmarks.study.figures import markdown
from dpquery.functions.order_statistics.quantile import OF_LISTS

ROWS, ATOM, SHARE = 10_000, 42_000, 0.3
DATA_SETS, DRAWS = 4, 25
SECONDS = 8
"""What a library may take for a data set: slow ones are drawn less often."""
ORDERS = [k / 10 for k in range(1, 10)]

Peer = Callable[[Values], Values]


def salaries(seed: int) -> Values:
    """Log-normal, to the cent; three in ten earn 42,000."""
    generator = np.random.default_rng([ROWS, seed])
    values = np.exp(generator.normal(10.6, 0.6, ROWS)).round(2)
    values[generator.random(ROWS) < SHARE] = ATOM
    return values.clip(0, TOP)


def diffprivlib(values: Values) -> Values:
    """Draw between sorted values, an equal part of epsilon each."""
    from diffprivlib.tools import quantile

    return np.array(quantile(values, ORDERS, epsilon=1, bounds=(0, TOP)))


def pydp(values: Values) -> Values:
    """Ask for one percentile at a time, by a tree of noisy counts."""
    from pydp.algorithms.laplacian import Percentile

    each = (
        Percentile(epsilon=1 / 9, percentile=p, lower_bound=0, upper_bound=TOP, dtype="float")
        for p in ORDERS
    )
    return np.array([one.quick_result(values.tolist()) for one in each])


def opendp_candidates(width: float) -> Peer:
    """Choose among candidates, for one order at a time; build once, draw often."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    places = np.arange(0, TOP + width, width).tolist()

    def chosen(order: float, scale: float) -> object:
        return dp.m.make_private_quantile(*space, dp.max_divergence(), places, order, scale)

    def calibrated(order: float) -> Callable[[Values], float]:
        scale = dp.binary_search_param(lambda s: chosen(order, s), d_in=1, d_out=1 / 9)
        return chosen(order, scale)

    each = [calibrated(order) for order in ORDERS]
    return lambda values: np.sort([one(values) for one in each])


def opendp_tree(width: float) -> Peer:
    """Count cells centred on multiples of a width, in a tree of 16 branches made consistent."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    edges = np.arange(width / 2, TOP, width).tolist()
    cells = len(edges) + 1
    counted = (
        space
        >> dp.t.then_find_bin(edges=edges)
        >> dp.t.then_count_by_categories(categories=list(range(cells)), null_category=False)
        >> dp.t.then_b_ary_tree(leaf_count=cells, branching_factor=16)
    )
    noisy = dp.binary_search_chain(
        lambda scale: counted >> dp.m.then_laplace(scale=scale), d_in=1, d_out=1.0
    )
    agreed = dp.t.make_consistent_b_ary_tree(branching_factor=16)
    read = dp.t.make_quantiles_from_counts(bin_edges=[0.0, *edges, TOP], alphas=ORDERS)
    return lambda values: np.array(read(agreed(noisy(values))[:cells]))


NEEDED = {"diffprivlib": "diffprivlib", "PyDP": "pydp", "OpenDP": "opendp"}
PEERS: dict[str, Callable[[], Peer]] = {
    "diffprivlib, quantiles": lambda: diffprivlib,
    "PyDP, percentiles": lambda: pydp,
    "OpenDP, candidates every 100": lambda: opendp_candidates(100.0),
    "OpenDP, candidates every 500": lambda: opendp_candidates(500.0),
    "OpenDP, tree over cells of 50": lambda: opendp_tree(50.0),
    "OpenDP, tree over cells of 100": lambda: opendp_tree(100.0),
    "OpenDP, tree over cells of 500": lambda: opendp_tree(500.0),
}


@dataclass(frozen=True)
class Errors:
    """Squared errors of values, the mean over the deciles, one for each draw."""

    squares: Values
    seconds: float

    @classmethod
    def of(cls, found: list[tuple[Values, Values]], seconds: float) -> Errors:
        squares = [((drawn - exact) ** 2).mean() for drawn, exact in found]
        return cls(np.array(squares), seconds / len(found))

    @property
    def rmse(self) -> float:
        return math.sqrt(self.squares.mean())

    @property
    def deviation(self) -> float:
        """The relative standard error of the root."""
        return float(
            self.squares.std(ddof=1) / self.squares.mean() / 2 / len(self.squares) ** 0.5
        )


def exact(values: Values) -> Values:
    return np.quantile(values, ORDERS, method="inverted_cdf")


def measured(folder: Path) -> dict[str, Errors]:
    """Ask this library, and every peer that is installed."""
    found = {"dpquery": _ours(folder, None)}
    for name in OF_LISTS:
        found[f"dpquery, '{name}'"] = _ours(folder, name)
    for name, made in PEERS.items():
        if find_spec(NEEDED[name.split(",")[0]]) is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[name] = _theirs(made())
    return found


def _ours(folder: Path, mechanism: str | None) -> Errors:
    named = "" if mechanism is None else f", mechanism='{mechanism}'"
    call = f"DP_QUANTILE(x, {ORDERS}, eps=1{named})"
    drawn, start = [], time.process_time()
    for seed in range(DATA_SETS):
        values = salaries(seed)
        column = Column(values, TOP, "0.01")
        with connect(folder / f"peers-{mechanism}-{seed}", {"x": column}) as session:
            lists = draws(session, call, DRAWS).reshape(-1, len(ORDERS))
        drawn += [(each, exact(values)) for each in lists]
    return Errors.of(drawn, time.process_time() - start)


def _theirs(peer: Peer) -> Errors:
    drawn, start = [], time.process_time()
    for seed in range(DATA_SETS):
        values, before = salaries(seed), time.process_time()
        for _ in range(DRAWS):
            drawn.append((peer(values), exact(values)))
            if time.process_time() - before > SECONDS:
                break
    return Errors.of(drawn, time.process_time() - start)


def table(found: dict[str, Errors]) -> str:
    """Write errors, and how many times that of the first line they are."""
    first = next(iter(found.values())).rmse
    rows = [
        [
            name,
            f"{len(one.squares)}",
            f"{one.rmse:.0f} ± {one.rmse * one.deviation:.0f}",
            f"{one.rmse / first:.1f}",
            f"{one.seconds * 1000:,.0f}",
        ]
        for name, one in found.items()
    ]
    return markdown([["", "draws", "RMSE of values", "times the first", "ms a list"], *rows])


TEXT = """\
## Nine deciles, beside other libraries

Of {rows:,} log-normal salaries in cents, three in ten of them 42,000, between 0 and {top:,}, at
epsilon 1 for all nine deciles together: the root mean square error of values, ± one standard
error. The first line is the default, which stands below by its name as well. What a peer calls
its mechanism stands behind its name; of the parameters that it needs, some that suit these
salaries were tried.

{table}

{missing}"""


def text(folder: Path) -> str:
    """Write what was measured."""
    missing = [name for name, module in NEEDED.items() if find_spec(module) is None]
    left_out = f"Not installed, so left out: {', '.join(missing)} (the extra `peers`).\n"
    return TEXT.format(
        rows=ROWS, top=TOP, table=table(measured(folder)), missing=left_out if missing else ""
    )

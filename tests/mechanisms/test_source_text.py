"""What the text of the package may contain: no floats where noise is made, no other randomness.

Read from the syntax tree, so that a slip is found before any statistics could (I8, I10).
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpquery.mechanisms
from dpquery.mechanisms import Randomness

PACKAGE = Path(dpquery.mechanisms.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
CONVERSION = PACKAGE.parent / "core" / "zcdp.py"

FLOATS_ALLOWED = {
    # probabilities and intervals: computed after the release, or for tests
    "log_pmf", "log_weight", "pmf", "pmf_of_cells", "_half_width", "_half_width_of_mean",
    "_log_total", "_reach",
    "_mean_share", "_integrated", "_law", "exponential_law", "rank_law", "_distances", "_tail",
    "_at_most",
    # the error that EXPLAIN states
    "_least_gap", "likely_off", "rows_for",
    # what released values tell
    "Reach", "Beyond", "combined_reach", "combined_tail", "_of_laplace", "_apart", "_weights",
    "_farther",
    "share_range", "APART", "noise_of_sums",
    "_combined", "_outside",
    # the width of a staircase: any width keeps the claim
    "_best_width", "_falls_to", "_variance",
    # from rho to epsilon and back: floats search an order, and decimals prove what it gives
    "epsilon_above", "rho_below", "_about_tail", "_tail_above", "_least", "GOLDEN",
    # the width of an interval
    "MARGIN",
}  # fmt: skip
FRACTIONS_DIVIDED = {
    "loss",
    "rho",
    "of_rho",
    "calibrated",
    "variance_ratio",
    "scale",
    "reach",
    "shortfall",
}
"""Here `/` stands between Fractions, as the types say."""
INTEGER_MATHS = {"isqrt", "gcd", "comb"}
INTEGER_NUMPY = {
    "add", "arange", "array", "bincount", "bool_", "compress", "concatenate", "divmod",
    "flatnonzero", "frombuffer", "int64", "maximum", "minimum", "ndarray", "ones", "repeat",
    "searchsorted", "take", "uint8", "uint64", "unique", "unpackbits", "where", "zeros",
}  # fmt: skip
IMPORTS = {
    "__future__", "bisect", "collections", "dataclasses", "decimal", "dpquery", "fractions",
    "functools", "itertools", "math", "numpy", "operator", "os", "statistics", "typing",
}  # fmt: skip


def parts(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """Functions, methods and constants with their names."""
    for statement in tree.body:
        inside = statement.body if isinstance(statement, ast.ClassDef) else [statement]
        for part in inside:
            if isinstance(part, ast.FunctionDef):
                yield part.name, part
            elif isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name):
                yield part.targets[0].id, part
            elif not isinstance(part, ast.Import | ast.ImportFrom):
                yield "", part


def slips(name: str, part: ast.stmt) -> Iterator[str]:
    for node in ast.walk(part):
        match node:
            case ast.Constant(value=float() | complex()):
                yield f"float literal {node.value}"
            case ast.Name(id="float" | "complex" | "round" | "NormalDist" | "Decimal"):
                yield node.id
            case ast.BinOp(op=ast.Div()) | ast.AugAssign(op=ast.Div()):
                if name not in FRACTIONS_DIVIDED:
                    yield "true division"
            case ast.Attribute(value=ast.Name(id="math"), attr=attr):
                if attr not in INTEGER_MATHS:
                    yield f"math.{attr}"
            case ast.Attribute(value=ast.Name(id="np"), attr=attr):
                if attr not in INTEGER_NUMPY:
                    yield f"np.{attr}"


def found(source: str) -> list[str]:
    return [
        f"{name}: {slip}"
        for name, part in parts(ast.parse(source))
        if name not in FLOATS_ALLOWED
        for slip in slips(name, part)
    ]


@pytest.mark.parametrize("path", [*MODULES, CONVERSION], ids=lambda path: path.name)
def test_no_float_is_near_the_noise(path: Path) -> None:
    assert found(path.read_text()) == []


@pytest.mark.parametrize(
    "line", ["y = 0.5 * x", "y = x / 2", "y = float(x)", "y = math.exp(x)", "y = np.log(x)",
             "x /= 2", "y = np.random.default_rng()"],
)  # fmt: skip
def test_the_scan_sees_a_float(line: str) -> None:
    assert found(f"def release(x):\n    {line}\n")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_randomness_has_one_door(path: Path) -> None:
    """`os` is imported in one file, and nothing that draws or seeds in any."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        for name in names:
            assert name.split(".")[0] in IMPORTS
            assert not name.startswith("numpy.random")
            assert name != "os" or path.name == "randomness.py"


def test_no_public_signature_takes_a_seed() -> None:
    assert list(inspect.signature(Randomness).parameters) == []
    for name, method in inspect.getmembers(Randomness, inspect.isfunction):
        if not name.startswith("_"):
            assert not {"seed", "state", "generator"} & set(
                inspect.signature(method).parameters
            )

"""The public interface: every name exists, none is missing, none is there by accident."""

from __future__ import annotations

import importlib
import inspect
from importlib.util import find_spec

import pytest

import dpquery
from dpquery import errors, functions

PUBLIC = [
    "Answer",
    "BudgetRefused",
    "DPQueryError",
    "InternalError",
    "Loss",
    "NameRefused",
    "Neighbours",
    "PlanRefused",
    "PolicyInvalid",
    "QueryRefused",
    "RuleRefused",
    "ScanFailed",
    "ServerUnusable",
    "Session",
    "SessionUnusable",
    "SyntaxRefused",
    "__version__",
    "connect",
    "dbapi",
    "practice",
]


def test_the_public_names_are_these_and_sorted():
    assert dpquery.__all__ == PUBLIC
    assert sorted(PUBLIC) == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_can_be_imported(name: str):
    assert getattr(dpquery, name) is not None
    assert name in dir(dpquery)


def test_every_error_class_is_public():
    raised = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, Exception)
    }
    assert raised <= set(dpquery.__all__)


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'conect'"):
        _ = dpquery.conect


def test_each_registered_function_is_here_under_each_of_its_names():
    registered = {name.removeprefix("DP_").lower() for name in functions.names()}
    assert {"count", "mean", "quantile"} <= registered <= set(dir(dpquery))
    for name in registered:
        assert repr(getattr(dpquery, name)).startswith(f"<dpquery.{name}(")
        assert find_spec(f"dpquery.{name}") is None, "a module of that name would hide it"


def test_the_version_is_that_of_the_installed_package():
    assert dpquery.__version__ == importlib.import_module("importlib.metadata").version(
        "dpquery"
    )

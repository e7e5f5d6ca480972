"""dpquery answers SQL about people without giving away any one of them.

The names below are the public interface; beside them stands each registered DP_ function, as
`dpquery.count`, for the builder. What needs the engine is loaded when it is first used, so that
`import dpquery` stays light.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from dpquery.answer import Answer
from dpquery.core.privacy_loss import Loss, Neighbours
from dpquery.errors import (
    BudgetRefused,
    DPQueryError,
    InternalError,
    NameRefused,
    PlanRefused,
    PolicyInvalid,
    QueryRefused,
    RuleRefused,
    ScanFailed,
    ServerUnusable,
    SessionUnusable,
    SyntaxRefused,
)

if TYPE_CHECKING:
    from dpquery import dbapi
    from dpquery.connecting import connect, practice
    from dpquery.session import Session

__all__ = [
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


__version__ = "0.1.0"
_LAZY = {
    "Session": "dpquery.session",
    "connect": "dpquery.connecting",
    "practice": "dpquery.connecting",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    if name == "dbapi":
        return import_module("dpquery.dbapi")
    # `from dpquery import functions` asks here first: a module must not load the registry.
    if name[:1] != "_" and find_spec(f"dpquery.{name}") is None:
        maker = import_module("dpquery.session_methods.builder").find(name)
        if maker is not None:
            return maker
    raise AttributeError(f"module 'dpquery' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(
        {*globals(), *__all__, *import_module("dpquery.session_methods.builder").names()}
    )

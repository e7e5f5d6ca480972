"""The closed lists of what a question about the catalogue may be made of."""

from __future__ import annotations

from sqlglot import exp

from dpquery.server.catalogue.faults import no_function, unsupported
from dpquery.server.catalogue.functions import MACROS, SETS

_NODES = """
    Add Alias Aliases All And Any ArrayContainedBy ArrayContainsAll ArrayOverlaps
    AtTimeZone Between BitwiseAnd BitwiseLeftShift BitwiseOr BitwiseRightShift Boolean
    Bracket ByteString CTE Column Cross DPipe DataType Distinct Div Dot EQ Escape Except
    Fetch Filter From GT GTE Group Having HexString ILike Identifier In Intersect
    Interval Is Join LT LTE Lateral Like Limit LimitOptions Literal Lock Mod Mul NEQ Neg
    Not Null NullSafeEQ NullSafeNEQ ObjectIdentifier Offset Or Order Ordered Parameter
    Paren Placeholder PropertyEQ PseudoType RawString RegexpILike Select SimilarTo Slice
    Star Sub Subquery Table TableAlias Tuple UnicodeString Union Unnest Values Var Where
    Window WindowSpec With WithinGroup
"""
_FUNCTIONS = """
    Abs And Array ArrayAgg ArrayAppend ArrayConcat ArrayPosition ArraySize ArrayToString
    Avg Case Cast Ceil Coalesce Concat ConcatWs Count CurrentCatalog CurrentDatabase
    CurrentDate CurrentRole CurrentSchema CurrentSchemas CurrentTime CurrentTimestamp
    CurrentUser CurrentVersion DenseRank Exists Explode ExplodingGenerateSeries Extract
    FirstValue Floor Format GenerateSeries Greatest GroupConcat If Lag LastValue Lead
    Least Left Length LogicalAnd LogicalOr Lower MD5 Max Min Nullif Or Rank RegexpILike
    RegexpLike RegexpReplace Replace Reverse Right Round RowNumber SessionUser SplitPart
    StrPosition StringToArray Substring Sum TimeToStr TimestampTrunc Trim Upper
"""
NODES = {*_NODES.split(), *_FUNCTIONS.split()}
"""Names of sqlglot's classes."""
_NAMED = """
    all array_length array_remove array_to_string btrim cardinality every json_build_object
    jsonb_build_object ltrim pg_typeof rtrim translate
"""
NAMES = {*MACROS, *SETS, *_NAMED.split()}
"""Functions that sqlglot knows by name alone."""
RENAMED = {
    "_pg_expandarray": "pg_expandarray",
    "json_build_object": "json_object",
    "jsonb_build_object": "json_object",
    "every": "bool_and",
    "btrim": "trim",
    "cardinality": "len",
}


def require_known(tree: exp.Expr) -> None:
    """Refuse a tree with a node or a function that is not on the lists."""
    for node in tree.walk():
        name = type(node).__name__
        if isinstance(node, exp.Anonymous):
            called = node.name.lower()
            if called not in NAMES and called not in RENAMED:
                raise no_function(called)
        elif name not in NODES:
            if isinstance(node, exp.Func):
                raise no_function(node.sql_name().lower())
            raise unsupported()

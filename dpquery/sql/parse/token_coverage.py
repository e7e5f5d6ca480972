"""Every word of the text must stand in the tree, and every word of the tree in the text (I9).

The parser is lenient: it drops `ALL`, reads `|> WHERE` and `BETWEEN 1 2`, takes `DIV` for `//`
and a long s for an s. Counting the words on both sides finds all of that without naming any of
it. Parentheses are not counted, because they are nodes; the few words that may be left
out are named here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from sqlglot import Token, TokenType
from sqlglot import expressions as exp

from dpquery.core.source_text import Source
from dpquery.errors import QueryRefused
from dpquery.sql.bind.scope import fold
from dpquery.sql.parse.spans import Spans, example, incomplete, mended, outside, span_of

_UNCOUNTED = {"(", ")", "as", "asc", "cast", "try_cast", "::"}
_SPELLINGS = {"!=": "<>", "==": "="}
_QUOTED = {TokenType.STRING, TokenType.IDENTIFIER}
_PARTNERS = {"and": "BETWEEN", "where": "FILTER", "is": "NULL"}
"""Where to point when a word is missing: at the word that calls for it."""
_REPLACEMENTS = {
    "div": "//",
    "except": "EXCLUDE",
    "all": "",
    "asymmetric": "",
}

COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.IntDiv: "//", exp.Mod: "%",
}  # fmt: skip
_NAMED = (
    exp.Select, exp.From, exp.Where, exp.Rollup, exp.Cube, exp.Having, exp.Distinct,
    exp.Offset, exp.Filter, exp.Null, exp.And, exp.Or, exp.Not, exp.Is, exp.In,
    exp.With, exp.Exists, exp.Qualify, exp.Union, exp.Except, exp.Intersect, exp.Abs,
    exp.Round, exp.Greatest, exp.Least, exp.Like, exp.ILike, exp.Interval,
)  # fmt: skip
"""What is written as the node is called."""
_WORDS: dict[type[exp.Expr], tuple[str, ...]] = {
    **{kind: (kind.__name__.lower(),) for kind in _NAMED},
    **{kind: (sign,) for kind, sign in (COMPARISONS | ARITHMETIC).items()},
    exp.Group: ("group by",), exp.GroupingSets: ("grouping sets",), exp.Order: ("order by",),
    exp.Star: ("*",), exp.Between: ("between", "and"), exp.Neg: ("-",), exp.Kwarg: ("=>",),
    exp.PropertyEQ: (":=",), exp.Array: ("[", "]"), exp.Window: ("over",),
    exp.Bracket: ("[", "]"), exp.Slice: (":",),
    exp.SimilarTo: ("similar to",), exp.RegexpLike: ("~",), exp.DPipe: ("||",),
    exp.NullSafeEQ: ("is", "not", "distinct", "from"),
    exp.NullSafeNEQ: ("is", "distinct", "from"), exp.Extract: ("extract", "from"),
    exp.AtTimeZone: ("at", "time", "zone"),
    exp.Unnest: ("unnest",), exp.Explode: ("unnest",), exp.Lateral: ("lateral",),
    exp.Case: ("case", "end"), exp.WithinGroup: ("within", "group"),
}  # fmt: skip
_SLOT_WORDS: dict[type[exp.Expr], dict[str, str]] = {
    exp.Star: {"except_": "exclude", "replace": "replace", "rename": "rename"},
    exp.Ordered: {"desc": "desc"}, exp.Group: {"all": "all"},
    exp.Join: {"on": "on", "using": "using"}, exp.Window: {"partition_by": "partition by"},
    exp.Case: {"default": "else"}, exp.Like: {"negate": "not"}, exp.ILike: {"negate": "not"},
}  # fmt: skip
"""What is written where a slot of a node is filled."""
_LISTS: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.TableAlias: ("columns",), exp.Join: ("using",), exp.Window: ("partition_by",),
    exp.Star: ("except_", "replace", "rename"),
}  # fmt: skip
"""The slots whose items stand with commas between them, if they are not `expressions`."""
_TYPES = {
    "double precision": "double", "float8": "double", "int": "integer", "int1": "tinyint",
    "int2": "smallint", "int4": "integer", "int8": "bigint", "long": "bigint",
    "short": "smallint", "signed": "integer", "text": "varchar", "string": "varchar",
    "char": "varchar", "bpchar": "varchar", "bool": "boolean", "logical": "boolean",
    "numeric": "decimal", "dec": "decimal", "datetime": "timestamp",
    "timestampntz": "timestamp", "real": "float", "float4": "float", "uinteger": "uint",
}  # fmt: skip
"""Names of types that mean another."""
_ZONED = {("with", "time", "zone"): "timestamptz", ("without", "time", "zone"): "timestamp"}
"""The words after TIMESTAMP that are part of the name of a type, and its short name."""
_COALESCED = {"coalesce", "ifnull", "nvl"}


def check_all_read(source: Source, tree: exp.Expr, spans: Spans) -> None:
    """Refuse a text with words that the tree does not hold, or the other way round.

    Raises:
        SyntaxRefused: DPQ101 a word is missing, DPQ102 a word was passed over.
    """
    written = list(_written(source, spans.tokens))
    read = Counter(word for node in tree.walk() for word in _read(node, spans))
    passed_over = Counter(word for word, _ in written) - read
    for word, token in written:
        if word in passed_over:
            raise _passed_over(source, spans.tokens, word, token)
    for word in read - Counter(word for word, _ in written):
        span = spans.word(_PARTNERS.get(word, "")) or spans.of(tree)
        remedy = example(source, spans.tokens)
        raise incomplete(f"{word.upper()} is missing", span, "incomplete", remedy)


def _written(source: Source, tokens: Sequence[Token]) -> Iterator[tuple[str, Token]]:
    """Return the words of the text, folded; quoted ones are marked and stay as they are."""
    before, rest = "", 0
    for number, token in enumerate(tokens):
        if rest:
            rest -= 1
            continue
        if token.token_type in _QUOTED:
            before = f"'{token.text}"
        else:
            before, last = fold(source.snippet(span_of(token))), before
            before = " ".join(_SPELLINGS.get(before, before).split())
            before = _TYPES.get(before, before)
            words = tuple(fold(word.text) for word in tokens[number + 1 : number + 4])
            if before == "timestamp" and words in _ZONED:
                before, rest = _ZONED[words], len(words)
            following = tokens[number + 1].text.upper() if number + 1 < len(tokens) else ""
            ordering = before == "nulls" and following in {"FIRST", "LAST"}
            ordering |= last == "nulls" and before in {"first", "last"}
            if ordering or before in _UNCOUNTED:
                continue
            before = "not" if before == "!" and following == "~" else before
        yield before, token


def _read(node: exp.Expr, spans: Spans) -> Iterator[str]:
    """Return the words that a node stands for, its children's excepted."""
    if node.meta.get("unwritten"):
        return
    yield from _WORDS.get(type(node), ())
    yield from _separators(node)
    yield from _of_leaf(node)
    yield from _of_clause(node)
    for slot, word in _SLOT_WORDS.get(type(node), {}).items():
        if node.args.get(slot):
            yield word
    match node:
        case exp.AggFunc() | exp.RowNumber() | exp.Rank() | exp.DenseRank():
            name = fold(spans.source.snippet(spans.name(node)))
            yield name if name.upper() in type(node).sql_names() else node.key
        case exp.Coalesce():
            start, end = node.meta.get("start", 0), node.meta.get("end", -1) + 1
            name = fold(spans.source.text[start:end])
            yield name if name in _COALESCED else "coalesce"
        case exp.Limit():
            yield "top" if node.meta.get("top") else "limit"
        case exp.CurrentDate():
            yield fold(spans.source.snippet(spans.name(node)))
        case exp.Pivot():
            yield from node.meta.get("words", ("pivot", "for"))
        case exp.If():
            yield from ("when", "then") if isinstance(node.parent, exp.Case) else ("if",)


def _of_leaf(node: exp.Expr) -> Iterator[str]:
    match node:
        case exp.Literal():
            yield f"'{node.this}" if node.is_string else fold(str(node.this))
        case exp.Identifier():
            yield f"'{node.this}" if node.quoted else _typed(str(node.this))
        case exp.Anonymous(this=str(name)) | exp.Var(this=str(name)):
            yield _typed(name)
        case exp.Boolean():
            yield "true" if node.this else "false"
        case exp.DataType():
            yield _typed(str(node.this.value))


def _typed(name: str) -> str:
    """Fold a name; those of types count as the type that they mean."""
    return _TYPES.get(fold(name), fold(name))


def _of_clause(node: exp.Expr) -> Iterator[str]:
    match node:
        case exp.Join() if node.meta.get("comma"):
            yield ","
        case exp.Join():
            words = (node.args.get(slot) for slot in ("method", "side", "kind"))
            yield from ("join", *(fold(str(word)) for word in words if word))
        case exp.CTE() if node.args.get("materialized") is not None:
            yield from (
                ("materialized",) if node.args["materialized"] else ("not", "materialized")
            )
        case exp.SetOperation() if not node.args.get("distinct"):
            yield "all"
        case exp.WindowSpec():
            yield fold(str(node.args["kind"]))
            yield from ("between", "and") if node.args.get("end") is not None else ()
            for slot in ("start", "end", "start_side", "end_side"):
                if isinstance(node.args.get(slot), str):
                    yield from fold(node.args[slot]).split()


def _separators(node: exp.Expr) -> Iterator[str]:
    """Return the commas of a list and the dots of a qualified name."""
    match node:
        case exp.Table() | exp.Column():
            yield from ("." for slot in ("table", "db", "catalog") if node.args.get(slot))
        case exp.Lag() | exp.Lead() | exp.Round():
            slots = ("offset", "default", "decimals")
            yield from ("," for slot in slots if node.args.get(slot) is not None)
        case exp.If() if not isinstance(node.parent, exp.Case):
            yield from ("," for slot in ("true", "false") if node.args.get(slot) is not None)
        case exp.Greatest() | exp.Least() | exp.Coalesce():
            yield from ("," for _ in node.expressions)
        case _:
            lists = [node.args.get(slot) for slot in _LISTS.get(type(node), ("expressions",))]
            yield from ("," for items in lists for _ in (items or ())[1:])


def _passed_over(
    source: Source, tokens: Sequence[Token], word: str, token: Token
) -> QueryRefused:
    span, shown = span_of(token), source.snippet(span_of(token))[:40]
    remedy = example(source, tokens)
    if word in _REPLACEMENTS:
        remedy = mended(source, span, _REPLACEMENTS[word], remedy)
    return outside(shown, span, "this would have no effect", remedy)


# The node classes of a query and the slots of each: all others are refused (I9).
_SLOTS: dict[str, tuple[type[exp.Expr], ...]] = {
    "this expression": (
        exp.And, exp.Or, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is, exp.Add,
        exp.Sub, exp.Mul, exp.IntDiv, exp.Mod, exp.SimilarTo, exp.NullSafeEQ, exp.NullSafeNEQ,
        exp.Extract, exp.Filter, exp.Kwarg, exp.PropertyEQ, exp.WithinGroup, exp.Slice,
        exp.RegexpLike,
    ),
    "this": (
        exp.Exists, exp.Qualify, exp.CountIf, exp.Sum, exp.Avg, exp.Min, exp.Max,
        exp.LogicalAnd, exp.LogicalOr, exp.From, exp.Where, exp.Having, exp.Boolean,
        exp.Paren, exp.Not, exp.Neg, exp.DataTypeParam, exp.Var, exp.Abs,
    ),
    "expressions": (
        exp.With, exp.Rollup, exp.Cube, exp.GroupingSets, exp.Grouping, exp.GroupingId,
        exp.Distinct, exp.Array, exp.Tuple,
    ),
    "": (exp.RowNumber, exp.Rank, exp.DenseRank, exp.Null, exp.CurrentDate),
    "this expressions": (
        exp.Order, exp.DataType, exp.Anonymous, exp.Coalesce, exp.Bracket, exp.Explode,
    ),
    "this expression distinct limit offset order with_": (exp.Union, exp.Except, exp.Intersect),
    "this zone": (exp.AtTimeZone,),
    "this alias": (exp.Alias, exp.Lateral, exp.PivotAlias), "alias expressions": (exp.Unnest,),
    "alias expressions fields group": (exp.Pivot,),
    "this alias joins pivots": (exp.Subquery,),
    "this default offset": (exp.Lag, exp.Lead),
    "expression": (exp.Limit, exp.Offset),
    "this expression negate": (exp.Like, exp.ILike),
    "this expressions ignore_nulls": (exp.Greatest, exp.Least),
    "expressions distinct from_ group having joins limit offset order qualify where with_": (
        exp.Select,
    ),
    "this alias materialized": (exp.CTE,),
    "this kind method on side using": (exp.Join,),
    "this order over partition_by spec": (exp.Window,),
    "end end_side kind start start_side": (exp.WindowSpec,),
    "this big_int": (exp.Count,),
    "this alias catalog db joins pivots": (exp.Table,),
    "this columns": (exp.TableAlias,),
    "expressions all": (exp.Group,),
    "this desc nulls_first": (exp.Ordered,),
    "this catalog db table": (exp.Column,),
    "this quoted": (exp.Identifier,),
    "except_ rename replace": (exp.Star,),
    "this is_string": (exp.Literal,),
    "this high low": (exp.Between,),
    "this expressions query unnest": (exp.In,),
    "this expression safe typed": (exp.Div,),
    "this to": (exp.Cast,),
    "this safe to": (exp.TryCast,),
    "this default ifs": (exp.Case,),
    "this false true": (exp.If,),
    "this expression safe": (exp.DPipe,),
    "this unit": (exp.Interval,),
    "this decimals": (exp.Round,),
}  # fmt: skip
ALLOWED = {kind: frozenset(slots.split()) for slots, kinds in _SLOTS.items() for kind in kinds}

"""Pieces of SQL that the rewriting of statements is made of."""

from __future__ import annotations

import re

from sqlglot import exp

from dpquery.server.catalogue.faults import unsupported

_LIST = re.compile(r"\{(.*)\}", re.DOTALL)
_ITEM = re.compile(r'"((?:[^"\\]|\\.)*)"|([^,"{}]+)')
_MARK = re.compile("(%[sIL])")
_QUOTING = {"%s": "", "%I": "quote_ident", "%L": "quote_literal"}


def macro(name: str, *arguments: exp.Expr) -> exp.Expr:
    """Return a call of one of the twin's macros."""
    return exp.Anonymous(this=name, expressions=[one.copy() for one in arguments])


def as_type(node: exp.Expr, type_: str) -> exp.Expr:
    """Return a cast to a type of DuckDB."""
    return exp.Cast(this=node.copy(), to=exp.DataType.build(type_, dialect="duckdb"))


def number(oid: int) -> exp.Expr:
    """Return the number of something in the catalogue."""
    return as_type(exp.Literal.number(oid), "UINTEGER")


def formatted(node: exp.Format) -> exp.Expr:
    """Return a text with its marks filled in, of which `%s`, `%I` and `%L` are known."""
    form = node.this
    if not isinstance(form, exp.Literal):
        raise unsupported()
    values = iter(node.expressions)
    parts: list[exp.Expr] = []
    for piece in _MARK.split(form.this):
        if piece not in _QUOTING:
            parts.append(exp.Literal.string(piece.replace("%%", "%")))
            continue
        value = next(values, None)
        if value is None:
            raise unsupported()
        text = as_type(value, "VARCHAR")
        quoting = _QUOTING[piece]
        parts.append(macro(quoting, text) if quoting else text)
    return exp.Concat(expressions=parts, safe=True, coalesce=True)


def is_list_text(node: exp.Expr | None) -> bool:
    """Return whether a node is the text of an array."""
    text = isinstance(node, exp.Literal) and node.is_string
    return text and node is not None and _LIST.fullmatch(node.this.strip()) is not None


def list_items(text: str) -> list[str | None]:
    """Return what an array holds that is written as PostgreSQL writes it.

    >>> list_items('{a,"b c",NULL}')
    ['a', 'b c', None]
    """
    found = _LIST.fullmatch(text.strip())
    items: list[str | None] = []
    for quoted, plain in _ITEM.findall(found[1] if found else text):
        if plain:
            items.append(None if plain.strip().upper() == "NULL" else plain.strip())
        else:
            items.append(re.sub(r"\\(.)", r"\1", quoted))
    return items


def list_of(node: exp.Expr) -> exp.Expr:
    """Return a list for its text."""
    items = list_items(node.this)
    return exp.Array(
        expressions=[exp.null() if one is None else exp.Literal.string(one) for one in items]
    )

"""What names of columns and tables say by custom: what identifies whom, and what is a group.

A guess is worth a proposal in a draft and a word in a refusal, and nothing is decided by it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable


def _set(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text))


_PERSONS = (
    """user customer client patient person member student subscriber visitor passenger guest
    buyer consumer shopper donor respondent participant subject player citizen resident child
    borrower tenant reader viewer rider voter individual""",
    "employee staff worker driver teacher doctor author seller operator agent",
    "account household family device",
)
"""From those that data are mostly about to those that one person can have several of."""
PERSONS = {word: rank for rank, said in enumerate(_PERSONS) for word in sorted(_set(said))}
_SHORT = {"cust": "customer", "emp": "employee", "usr": "user", "acct": "account"}
_SHORT |= {"pat": "patient", "people": "person", "children": "child"}
_KEYS = _set("id key uid uuid guid no nr num number sk pk fk")
_FILLERS = _set("dim fact tbl table raw stg")
"""What tables are called beside what they hold."""

GROUP = _set(
    """status type kind category class region country state city gender sex dept department team
    segment channel plan tier level priority currency language brand browser os platform source
    medium mode flag code grade method role stage reason carrier zone area ward unit device"""
)
"""Columns of few values, which a form or a list of codes offers."""
FREE = _set(
    """name firstname lastname surname email mail phone fax mobile address street comment
    comments note notes description message text body title url ip password token ssn"""
)
"""Columns that hold what somebody wrote, or say who it was."""


def words(name: str) -> tuple[str, ...]:
    """Return the words of a name.

    >>> words("customerId"), words("Order ID"), words("c_custkey")
    (('customer', 'id'), ('order', 'id'), ('c', 'custkey'))
    """
    apart = re.sub(r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    return tuple(re.findall(r"[^\W_]+", apart.lower()))


def _one(word: str) -> str:
    """Return the singular of a word, spelled out."""
    if word in _SHORT:
        return _SHORT[word]
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if re.search(r"(ss|sh|ch|x|zz)es$", word):
        return word[:-2]
    return word[:-1] if len(word) > 3 and re.search(r"[^sui]s$", word) else word


def entity(table: str) -> str:
    """Return what one row of a table stands for.

    >>> entity("Customers"), entity("dim_categories"), entity("page views"), entity("status")
    ('customer', 'category', 'page_view', 'status')
    """
    *first, last = [word for word in words(table) if word not in _FILLERS] or [table.lower()]
    return "_".join([*first, _one(last)])


def own_words(columns: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the words of a table's columns, without a short one that all of them begin with.

    >>> own_words(["o_orderkey", "o_custkey"])
    {'o_orderkey': ('orderkey',), 'o_custkey': ('custkey',)}
    """
    found = {name: words(name) for name in columns}
    first = {said[0] if len(said) > 1 else "" for said in found.values()}
    shared = len(found) > 1 and len(first) == 1 and 1 <= len(min(first)) <= 3
    return {name: said[1:] if shared else said for name, said in found.items()}


def refers_to(said: tuple[str, ...], known: Collection[str]) -> str | None:
    """Return what a column identifies, by its words; "" is its own table, None is nothing.

    Args:
        said: the words of its name.
        known: what tables hold; a word that is run together with its ending is taken apart
            for one of these, or for a person.

    >>> refers_to(("order", "id"), []), refers_to(("custkey",), []), refers_to(("paid",), [])
    ('order', 'customer', None)
    >>> refers_to(("suppkey",), ["supplier"]), refers_to(("id",), []), refers_to(("uid",), [])
    ('supplier', '', 'user')
    """
    if not said:
        return None
    *first, last = said
    if last in _KEYS:
        return "_".join([*first[:-1], _one(first[-1])]) if first else _ALONE.get(last)
    one = _SHORT.get(last, last)  # a plural is a number of them
    if len(said) > 1 or PERSONS.get(one) == 0:
        return "_".join([*first, one]) if PERSONS.get(one) == 0 else None
    ending = re.fullmatch(r"(.{3,}?)(uid|id|key|no|nr)", last)
    if ending is None:
        return None
    root = _one(ending[1])
    whole = [one for one in (*known, *PERSONS) if one == root]
    begun = [one for one in known if len(root) >= 4 and one.startswith(root)]
    return next(iter([*whole, *begun]), None)


_ALONE = {"id": "", "uuid": "", "guid": "", "key": "", "pk": "", "sk": "", "uid": "user"}


def person(referred: str | None) -> str | None:
    """Return who is meant by what a column identifies, if it is somebody.

    >>> person("billing_customer"), person("order")
    ('customer', None)
    """
    last = (referred or "").rpartition("_")[2]
    return last if last in PERSONS else None

"""Lines of keys: the walk over the text agrees with tomllib on every key."""

from __future__ import annotations

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from dpquery.policy.document import key_lines, toml_key, toml_text

NAMES = st.one_of(
    st.sampled_from(["a", "b-c", "1", 'q"]', "x.y", "# no", "[t]", "{", "ü = 1", "'"]),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4),
)
LEAVES = st.one_of(
    st.integers().map(str),
    st.sampled_from(
        [
            "0.5",
            "1979-05-27 07:32:00",
            "'''x\n[no]\n= '' # '''",
            '"""a = 1\n\\""" b"""',
            '"# {no} = [1]"',
            "[1, [2,\n# c = 3 ]\n3], ]",
        ]
    ),
)
INLINE = st.recursive(
    LEAVES,
    lambda inner: st.dictionaries(NAMES, inner, max_size=3).map(
        lambda d: "{ " + ", ".join(f"{toml_text(k)} = {v}" for k, v in d.items()) + " }"
    ),
    max_leaves=6,
)


@given(st.dictionaries(NAMES, st.dictionaries(NAMES, INLINE, max_size=4), max_size=4))
def test_every_key_of_a_document_has_the_line_where_it_is_written(
    tables: dict[str, dict[str, str]],
) -> None:
    text, lines = "", {}
    for name, values in tables.items():
        lines[(name,)] = text.count("\n") + 1
        text += f"[ {toml_key(name)} ] # [x]\n"
        for key, value in values.items():
            lines[name, key] = text.count("\n") + 1
            text += f"{toml_key(key)} = {value} # y = 1\n\n"
    found = key_lines(text)
    assert set(found) == set(paths(tomllib.loads(text)))
    assert {path: found[path] for path in lines} == lines


def paths(values: object, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if not isinstance(values, dict):
        return []
    return [
        deeper
        for key, value in values.items()
        for deeper in [(*path, key), *paths(value, (*path, key))]
    ]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_survives_being_written_as_toml(text: str) -> None:
    assert tomllib.loads(f"x = {toml_text(text)}") == {"x": text}
    assert tomllib.loads(f"{toml_key(text)} = 1") == {text: 1}
    assert toml_text(text).isprintable()


def test_dotted_and_inline_keys_have_lines() -> None:
    text = 'a.b = 1\n[t]\n\nc = {d = 1, "e f" = {g = 2}}\n[[u]]\nx = 1\n[[u]]\nx = 2\n'
    lines = key_lines(text)
    assert lines["a",] == lines["a", "b"] == 1
    assert lines["t", "c", "e f", "g"] == 4
    assert lines["u",] == 5

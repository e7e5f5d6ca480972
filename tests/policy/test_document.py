"""Lines of keys: the walk over the text agrees with tomllib on every key."""

from __future__ import annotations

import tomllib
from time import process_time

from hypothesis import given
from hypothesis import strategies as st

from dpquery.policy.document import line_of, toml_key, toml_text

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
    assert {path: line_of(path, text) for path in lines} == lines
    assert all(line_of(path, text) for path in paths(tomllib.loads(text)))


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
    assert line_of(("a",), text) == line_of(("a", "b"), text) == 1
    assert line_of(("t", "c", "e f", "g"), text) == 4
    assert line_of(("u",), text) == 5


def test_a_name_elsewhere_is_not_taken_for_the_key() -> None:
    text = '# age\nx = """\nage = 1\n"""\n[age_of]\nage = ["age",\n"age",\n]\n[u]\nage = 2\n'
    assert line_of(("age_of", "age"), text) == 6
    assert line_of(("u", "age"), text) == 10
    assert line_of(("v", "b"), '[v]\n"\\u0062" = 1\n') == 1


def test_the_line_of_a_long_policy_is_found_soon() -> None:
    columns = "".join(f'c{n} = {{ type = "text" }}\n' for n in range(5000))
    text = f"[tables.t.columns]\n{columns}"
    started = process_time()
    assert line_of(("tables", "t", "columns", "c4999", "type"), text) == 5001
    assert process_time() - started < 5

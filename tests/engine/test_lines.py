"""Lines of CSV and JSON: each is one row, whatever stands in it and in all others."""

from __future__ import annotations

import csv
import gzip
import json
from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dpquery.core.types import BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, Kind, Type
from dpquery.engine import text_lines
from dpquery.engine.duckdb.sources.source_views import batches
from dpquery.engine.text_lines import LONGEST, Lines
from dpquery.policy.model import Column, Csv, Files, Format, Json, Table

TYPES = {
    "i": INTEGER,
    "d": DOUBLE,
    "k": TEXT,
    "b": BOOLEAN,
    "c": DATE,
    "t": TIMESTAMP,
    "x": Type(Kind.DECIMAL, 9, 2),
}
HEADER = ",".join(TYPES).encode()


def table(paths: Sequence[Path], format_: Format) -> Table:
    columns = {name: Column(name, type_) for name, type_ in TYPES.items()}
    return Table("t", Files(tuple(paths), format_), (), columns)


def rows(paths: Sequence[Path], format_: Format) -> list[tuple[Any, ...]]:
    found = [batch.to_pylist() for batch in batches(table(paths, format_), list(TYPES))]
    return [tuple(row.values()) for batch in found for row in batch]


def test_lines_are_cut_at_their_ends_alone(tmp_path: Path):
    read = lambda: [  # noqa: E731 - of the file as it is by now
        line
        for batch in Lines([path], header=False)._batches()
        for line in batch[0].to_pylist()
    ]
    path = tmp_path / "a.csv"
    for data, found in [
        (b"", []),
        (b"\n", []),
        (b"\r\n\n\r\r\n ", ["\r", " "]),
        (b"a", ["a"]),
        (b"a\nb\n", ["a", "b"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb", ["a", "\ufeffb"]),
        (b'"a\nb"\r\nc\rd\n\0\n', ['"a', 'b"', "c\rd", "\0"]),
        (b"a\n\xff\n\xe2\x82\n\xe2\x82\xac", ["a", None, None, "€"]),
        *(
            (b"x\ny" + b"z" * (LONGEST - 1 + more) + end + b"w", ["x", one, "w"])
            for end in (b"\n", b"\r\n")
            for more, one in ((0, "y" + "z" * (LONGEST - 1)), (1, None))
        ),
        (b"z" * 5_000_000 + b"\nw\n", [None, "w"]),
        (b"w\n" + b"z" * 5_000_000, ["w", None]),
    ]:
        path.write_bytes(data)
        assert read() == found


@pytest.mark.parametrize("sign", ["é", "€", "😀"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_halves_of_a_character_are_no_text_whatever_stands_below(
    tmp_path: Path, sign: str, end: bytes
):
    written = sign.encode()
    for cut in range(1, len(written)):
        halves = [b"1,x" + written[:cut], written[cut:] + b"2,y"]
        path = tmp_path / "a.csv"
        for others in ([], [b"3,\xff"]):
            path.write_bytes(end.join([*halves * 3, *others, b"4,ok"]))
            found = [
                line
                for batch in Lines([path], header=False)._batches()
                for line in batch[0].to_pylist()
            ]
            assert found == [None] * (6 + len(others)) + ["4,ok"]


def test_lines_are_the_same_whatever_is_read_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(text_lines, "LONGEST", 20)
    random, path = Random(7), tmp_path / "a.csv"
    for _ in range(300):
        given = [random.randbytes(random.choice([0, 3, 18, 19, 20, 21, 50])) for _ in range(9)]
        given = [one.replace(b"\n", b"").replace(b"\xef", b"") for one in given]
        given += [b"y" * random.randint(18, 23) + b"\r" + b"z" * random.randint(0, 2)]
        path.write_bytes(b"\n".join(given) + b"\n")
        for block in (1, 2, 7, 64, 2**20):
            monkeypatch.setattr(text_lines, "BLOCK", block)
            read = [
                line
                for batch in Lines([path], header=False)._batches()
                for line in batch[0].to_pylist()
            ]
            assert read == [one for one in map(_expected, given) if one != ""]


def _expected(line: bytes) -> str | None:
    line = line.removesuffix(b"\r")
    try:
        return line.decode() if len(line) <= 20 else None
    except UnicodeDecodeError:
        return None


PLAIN = [
    (b"7,1.5,eng,true,2024-02-29,2024-02-29 12:30:00,9.99", "all"),
    (b'" 7 ","1e3","a,b","t","2024-02-29","x","0"', "quoted"),
    (b'1,2,"say ""no""",f,,,', "doubled"),
    (b",,,,,,", "none"),
    (b'1,,"",,,,', "an empty text"),
]


def test_fields_are_read_as_the_csv_module_does(tmp_path: Path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"\r\n".join([HEADER, *(line for line, _ in PLAIN)]))
    texts = [row[2] for row in rows([path], Csv())]
    meant = [row[2] for row in csv.reader(line.decode() for line, _ in PLAIN)]
    assert texts == ["eng", "a,b", 'say "no"', None, ""]
    assert [text or "" for text in texts] == meant
    ((i, d, *_), *_) = rows([path], Csv())
    assert (i, d) == (7, 1.5)
    with gzip.open(tmp_path / "b.csv.gz", "wb") as file:
        file.write(
            b";".join([HEADER.replace(b",", b";")]) + b"\n7;NA;'a;b'\n;;NA;more;;;;;;;x\n"
        )
    format_ = Csv(delimiter=";", quote="'", null="NA")
    assert [row[:4] for row in rows([tmp_path / "b.csv.gz"], format_)] == [
        (7, None, "a;b", None),
        (None, None, None, None),
    ]
    (tmp_path / "c.csv").write_bytes(b"1,2,x\n")
    named = Csv(fields=("d", "i", "k", "b", "c", "t", "x"))
    assert [row[:3] for row in rows([tmp_path / "c.csv"], named)] == [(2, 1.0, "x")]


def test_objects_are_read_as_the_json_module_does(tmp_path: Path):
    given: list[Any] = [
        {"i": 7, "d": 1.5, "k": "eng", "b": True, "c": "2024-02-29", "x": 9.99},
        {"k": {"a": [1, "x"]}, "i": "12", "b": None},
        {"k": "a\nb\0\u20ac\"'", "more": [{}] * 3},
        {},
        [1],
        5,
        "i",
        None,
    ]
    path = tmp_path / "a.json"
    path.write_text("\n".join(map(json.dumps, given)) + '\n{broken\n\n{"i": 1}{"i": 2}\n')
    found = rows([path], Json())
    assert [row[:3] for row in found[:3]] == [
        (7, 1.5, "eng"),
        (12, None, '{"a":[1,"x"]}'),
        (None, None, "a\nb\0\u20ac\"'"),
    ]
    assert len(found) == 10
    assert all(set(row) == {None} for row in found[3:])


PIECES = [
    *(
        b",",
        b'"',
        b"'",
        b"\\",
        b"\0",
        b"\xff",
        b"\xe2\x82",
        b"\xe2\x82\xac",
        b"\r",
        b"\t",
        b" ",
    ),
    *(b"1", b"-", b"e9", b"inf", b"nan", b"2024-01-01", b"true", b"99999999999999999999", b"#"),
    *(b"{", b"}", b"[", b"]", b":", b'"i":', b'{"k":"', b'"}', b"null", b"x" * 300, b"," * 300),
    *(b"infinity", b"1e400", b"0001-01-01 (BC)", b"epoch", b"294247-01-10 04:00:54.775807"),
    *(b"%", b"\\u0000", b"\\ud800", b"\xef\xbb\xbf", b"9" * 40 + b".5", b"[" * 500),
]


@pytest.mark.parametrize("format_", [Csv(), Csv(quote=""), Csv("|", "'", "1"), Json()])
@pytest.mark.parametrize(
    ("seed", "many"),
    [(0, 8), *(pytest.param(n, 80, marks=pytest.mark.slow) for n in range(20))],
)
def test_no_line_changes_another(tmp_path: Path, format_: Format, seed: int, many: int):
    """What is read of many lines is what is read of each in a file of its own."""
    random = Random(seed)
    given = [
        b"".join(random.choices(PIECES, k=random.choice([1, 2, 5, 12]))).rstrip(b"\r")
        for _ in range(many)
    ]
    if isinstance(format_, Csv):
        format_ = Csv(format_.delimiter, format_.quote, format_.null, tuple(TYPES))
    alone: Counter[str] = Counter()
    for number, line in enumerate(given):
        (tmp_path / f"{number}.csv").write_bytes(b"\n" + line)
        alone.update(map(repr, rows([tmp_path / f"{number}.csv"], format_)))
    for end in (b"\n", b"\r\n"):
        (tmp_path / "all.csv").write_bytes(end.join([b"", *random.sample(given, len(given))]))
        assert Counter(map(repr, rows([tmp_path / "all.csv"], format_))) == alone


def at(time: str) -> datetime:
    return datetime.fromisoformat(f"2024-05-06 {time}")


WHOLE: list[tuple[str, Type, dict[str, object]]] = [
    ("integers", INTEGER, {
        "1": 1, "-7": -7, " 3 ": 3, "4.0": 4, "+5.": 5, str(2**63 - 1): 2**63 - 1,
        "1.4": None, "0.5": None, "1e3": None, "0x10": None, "1_0": None, str(2**63): None,
        "9223372036854775806.5": None, "": None, ".": None, "nan": None,
    }),
    ("decimals", Type(Kind.DECIMAL, 9, 2), {
        "1.5": Decimal("1.50"), "-.250": Decimal("-0.25"), "3": Decimal("3.00"),
        "0.001": None, "1.255": None, "12345678.1": None, "1e0": None,
    }),
    ("days", DATE, {
        "2024-05-06": date(2024, 5, 6), "2024-05-07 00:00:00": date(2024, 5, 7),
        "2024-05-08T00:00": date(2024, 5, 8), "2024-05-09 12:00": None,
        "2024-05-10 00:00:00.5": None, "2024-05-11 00:00:01": None,
    }),
    ("moments", TIMESTAMP, {
        "2024-05-06 07:08:09.123456": at("07:08:09.123456"),
        "2024-05-06 07:08:09.1000000": at("07:08:09.1"),
        "2024-05-06 07:08": at("07:08"), "2024-05-06 07:08:09.1234567": None,
        "2024-05-06 07:08:09.1234560001": None,
    }),
]  # fmt: skip
"""Texts of units, each with its own: no two that differ are one."""


@pytest.mark.parametrize(("type_", "told"), [each[1:] for each in WHOLE], ids=lambda _: "")
@pytest.mark.parametrize("format_", [Csv(",", '"', ""), Json()], ids=["csv", "json"])
def test_a_unit_is_what_its_text_says_or_nobody(
    tmp_path: Path, format_: Format, type_: Type, told: dict[str, object]
):
    """Rounded, 1.4 would be the unit 1; beside units it is."""
    path = tmp_path / "a"
    if isinstance(format_, Csv):
        path.write_text("u,v\n" + "".join(f'"{text}","{text}"\n' for text in told))
    else:
        path.write_text("".join(json.dumps({"u": t, "v": t}) + "\n" for t in told))
    columns = {name: Column(name, type_) for name in "uv"}
    source = Files((path,), format_)
    opened = Table("t", source, (), columns, unit="u", unit_type=type_)
    found = [row for batch in batches(opened, ["u", "v"]) for row in batch.to_pylist()]
    assert [row["u"] for row in found] == [*told.values()]
    if type_ == INTEGER:
        assert [row["v"] for row in found if row["u"] is None][:3] == [1, 1, 1000]

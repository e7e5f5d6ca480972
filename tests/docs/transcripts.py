"""The transcripts of the pages: how they are run, compared, and written again."""

from __future__ import annotations

import re
import shlex
import tempfile
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from io import BytesIO, TextIOWrapper
from pathlib import Path

from dpquery.policy.sources.paths import copy_samples
from dpquery.shell.main import main
from tests.docs.pages import BLOCK, PAGES, shape
from tests.docs.store import make_store

IN_ONE_SESSION = {"tutorial.md", "several-analysts.md", "nightly.md", "own-file.md"}
"""Pages whose transcripts go on from one another: ledger and budget are the same."""


def stories(page: Path) -> list[list[str]]:
    """Return the page's transcripts, those together that share a ledger."""
    texts = [text for kind, text in BLOCK.findall(page.read_text("utf-8")) if kind == "console"]
    if page.name in IN_ONE_SESSION:
        return [texts] if texts else []
    return [[text] for text in texts]


def written(page: Path) -> dict[str, str]:
    """Return the files that the page has the reader write: they begin with `# team.toml`."""
    found = [text for kind, text in BLOCK.findall(page.read_text("utf-8")) if kind == "toml"]
    return {head[1]: text for text in found if (head := re.match(r"# ([\w-]+\.toml)\b", text))}


def played(story: list[str], files: dict[str, str], folder: Path) -> list[str]:
    """Run the commands in a fresh copy of the samples; return the transcripts as printed."""
    place = copy_samples(folder / "samples").parent
    for name, text in files.items():
        (place / name).write_text(text, "utf-8")
    if any(re.search(r"^\$ .*\bstore\b", text, re.MULTILINE) for text in story):
        make_store(place / "store")
    with chdir(place):
        return ["".join(map(_ran, _commands(text))) for text in story]


def _commands(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("$ ")]


def _ran(line: str) -> str:
    _, *argv = shlex.split(line[2:])
    file = argv.pop() if argv[-2:-1] == [">"] else None
    out, err = (TextIOWrapper(BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err), suppress(SystemExit):  # --help
        main([word for word in argv if word != ">"])
    shown, told = (stream.buffer.getvalue().decode("utf-8") for stream in (out, err))
    if file is not None:
        Path(file).write_text(shown, "utf-8")
        shown = ""
    return (
        "\n".join(text for text in (line, shown.rstrip("\n"), told.rstrip("\n")) if text) + "\n"
    )


def shapes(text: str) -> list[str]:
    """Return what two runs of a transcript have in common: everything but the noise.

    An interval that chance moves to the end of what is possible is written with both ends.
    """
    return [shape(line).replace("N … N", "± N") for line in text.splitlines() if line]


def rewrite() -> None:
    """Write the transcripts again that no longer come out as printed."""
    for page in PAGES:
        text = old = page.read_text("utf-8")
        for story in stories(page):
            with tempfile.TemporaryDirectory() as folder:
                new = played(story, written(page), Path(folder))
            if [*map(shapes, new)] != [*map(shapes, story)]:
                for before, after in zip(story, new, strict=True):
                    text = text.replace(before, after, 1)
        if text != old:
            page.write_text(text, "utf-8")

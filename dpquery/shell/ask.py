"""Asks a session statement by statement and writes the answers.

Everything that can go wrong with the command line does so before the first statement is asked,
because what has been charged is not returned. Standard output carries answers only.
"""

from __future__ import annotations

import os
import stat
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from dpquery.answer import Answer
from dpquery.errors import DPQueryError, ExitCode
from dpquery.present import BINARY, FORMATS
from dpquery.shell.arguments import UsageError, connect_settings
from dpquery.shell.split import Statement, statements

__all__ = ["Asked", "Connect", "ask", "open_session", "say", "show"]


class Asked(Protocol):
    """What the command line needs of a session."""

    def sql(self, text: str) -> Answer:
        """Answer one statement."""
        ...


Connect = Callable[..., AbstractContextManager[Asked]]


def open_session(source: str, **settings: Any) -> AbstractContextManager[Asked]:
    """Connect; the engine is loaded here and not before."""
    import dpquery

    return dpquery.connect(source, **settings)


def say(text: object) -> None:
    """Write a line to standard error."""
    print(text, file=sys.stderr)


def show(text: object) -> None:
    """Write a line to standard output."""
    with _writing():
        print(text, flush=True)


def ask(options: Namespace, connect: Connect) -> int:
    """Ask everything that the command line names; stop at the first failure, with its code."""
    script = _script(options)
    if options.format in BINARY and len(script) > 1:
        raise UsageError(f"a file of {options.format} holds one answer, not {len(script)}")
    with (
        _output(options) as output,
        connect(options.source, **connect_settings(options)) as session,
    ):
        return _ask_each(script, session, output)


@contextmanager
def _writing() -> Iterator[None]:
    """Report output that cannot be written; a reader that left is no fault."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(f"the output cannot be written: {error.strerror}") from None


def _script(options: Namespace) -> list[Statement]:
    """Read what to ask; a text without any statement is the session's to refuse."""
    if options.command is not None:
        return [Statement(_decoded(os.fsencode(options.command), "the text after -c"), 1)]
    text = _read_file(options.file) if options.file is not None else _read_stdin()
    return statements(text) or [Statement(text, 1)]


def _read_file(file: str) -> str:
    try:
        return _decoded(Path(file).read_bytes(), file)
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from None


def _read_stdin() -> str:
    if sys.stdin.isatty():
        raise UsageError("nothing to ask: give -c SQL or -f FILE, or pipe statements in")
    return _decoded(sys.stdin.buffer.read(), "standard input")


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{name} is not UTF-8") from None


@contextmanager
def _output(options: Namespace) -> Iterator[_Output]:
    """Open where answers go, without touching what stands there already."""
    if options.out is None:
        if options.format in BINARY and sys.stdout.isatty():
            raise UsageError(f"{options.format} is not for terminals: name a file with -o")
        yield _Output(options.format, sys.stdout.buffer)
        return
    try:
        stream = open(options.out, "wb", opener=_open_as_it_is)  # noqa: SIM115
    except OSError as error:
        raise UsageError(f"cannot write {options.out}: {error.strerror}") from None
    try:
        yield _Output(options.format, stream, stat.S_ISREG(os.fstat(stream.fileno()).st_mode))
    finally:
        with suppress(OSError):  # each answer was flushed, and a full disk is reported by then
            stream.close()


def _open_as_it_is(path: str, flags: int) -> int:
    return os.open(path, flags & ~os.O_TRUNC, 0o666)


@dataclass
class _Output:
    """Writes one answer after the other; an older file gives way when the first one comes."""

    form: str
    stream: IO[bytes]
    replaces: bool = False
    written: bool = False

    def write(self, answer: Answer) -> None:
        if self.replaces and not self.written:
            self.stream.truncate(0)
        elif self.written:
            self.stream.write(b"\n")
        FORMATS[self.form](answer, self.stream)
        self.stream.flush()
        self.written = True


def _ask_each(script: list[Statement], session: Asked, output: _Output) -> int:
    noted: set[str] = set()
    for at, statement in enumerate(script):
        try:
            answer = session.sql(statement.text)
        except DPQueryError as error:
            say(error)
            if len(script) > 1:
                say(
                    f"dpquery: stopped at line {statement.line}: {at} of {len(script)} answered"
                )
            return error.exit_code
        with _writing():
            output.write(answer)
        _comment(answer, noted)
    return ExitCode.ANSWER


def _comment(answer: Answer, noted: set[str]) -> None:
    """Write what belongs to an answer but is no data; each note once."""
    for note in answer.notes:
        if note not in noted:
            say(f"note: {note}")
    noted.update(answer.notes)
    if answer.budget:
        say(f"budget: {answer.budget}")

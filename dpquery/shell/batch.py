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
from getpass import getpass
from pathlib import Path
from traceback import walk_tb
from typing import IO, TYPE_CHECKING, Any

from dpquery.answer import Answer
from dpquery.client.server_connection import ASKS
from dpquery.core.source_text import visible, visible_lines
from dpquery.display.formats import BINARY, FORMATS
from dpquery.editing.cursor_context import Statement, statements
from dpquery.errors import DPQueryError, ExitCode, InternalError, ServerUnusable, internal
from dpquery.shell.arguments import (
    TABLE,
    Part,
    UsageError,
    connect_settings,
    without_python,
    worded,
)
from dpquery.shell.terminal import clock, reading

if TYPE_CHECKING:
    from dpquery.client.remote import AnySession


Connect = Callable[..., AbstractContextManager["AnySession"]]


def open_session(source: Any, **settings: Any) -> AbstractContextManager[AnySession]:
    """Connect; the engine is loaded here and not before. Who types is asked for a password."""
    import dpquery

    try:
        return dpquery.connect(source, **settings)
    except ServerUnusable as refused:
        if refused.code != ASKS or not sys.stdin.isatty():
            raise
        password = _password(refused.diagnostic.title)
        if not password:
            raise
        return dpquery.connect(source, **settings, password=password)


def open_practice(source: Any, **settings: Any) -> AbstractContextManager[AnySession]:
    """Open a session over rows that are made up from a policy."""
    import dpquery

    return dpquery.practice(source, **settings)


def _password(question: str) -> str:
    """Read a password, unseen; nothing where nobody types one."""
    try:
        return getpass(f"{visible(question)}: ")
    except EOFError:
        return ""


def say(text: object) -> None:
    """Write a line to standard error."""
    print(visible_lines(str(text)), file=sys.stderr)


def show(text: object) -> None:
    """Write a line to standard output."""
    with writing():
        print(text, flush=True)


@contextmanager
def connected(options: Namespace, connect: Connect) -> Iterator[AnySession]:
    """Open the session that the command line asks for."""
    with connect(options.source, **connect_settings(options)) as session:
        if options.eps is not None:
            session.sql(f"SET dp.eps = {options.eps}")
        yield session


def ask(options: Namespace, connect: Connect) -> int:
    """Ask everything that the command line names; stop at the first failure, with its code."""
    script = _script(options.script)
    one_answer = options.format in BINARY or (options.out and options.format != TABLE)
    if one_answer and len(script) > 1 and not options.explain:
        raise UsageError(
            f"a file of {options.format} holds one answer, not {len(script)}: "
            "ask one statement for each -o"
        )
    with (
        answers_to(options) as output,
        connected(options, connect) as session,
    ):
        if options.explain:
            return _foresee(session, script, output)
        noted: set[str] = set()
        for at, statement in enumerate(script):
            try:
                with clock(reading(statement.text), sys.stdout):
                    answer = session.sql(statement.text)
            except DPQueryError as fault:
                say(worded(fault))
                code = fault.exit_code
            except KeyboardInterrupt as stop:
                say(stopped(stop))
                code = ExitCode.INTERRUPTED
            else:
                with writing():
                    output.write(answer)
                _comment(answer, noted)
                continue
            if len(script) > 1:
                several = len(options.script or ()) > 1  # of several texts, by its number
                place = f"statement {at + 1}" if several else f"line {statement.line}"
                say(f"dpquery: stopped at {place}: {at} of {len(script)} answered")
            return code
    return ExitCode.ANSWER


def _foresee(session: AnySession, script: list[Statement], output: Output) -> int:
    """Write what a script would cost; return the code with which asking it would end."""
    found = session.forecast([statement.text for statement in script])
    answer = found.answer()
    with writing():
        output.write(answer)
    say(f"budget: {answer.budget}")
    refused = next((one.refused for one in found.statements if one.refused), None)
    if refused is not None:
        say(worded(refused))
        return refused.exit_code
    return ExitCode.ANSWER if found.fits else ExitCode.BUDGET


def unexpected(error: Exception) -> InternalError:
    """Name a mistake of ours by its type and place: its own text could hold values (I11)."""
    frames = [
        (f.f_globals.get("__name__", ""), line) for f, line in walk_tb(error.__traceback__)
    ]
    module, line = [frame for frame in frames if frame[0].startswith("dpquery")][-1]
    return internal(f"{type(error).__name__} in {module}, line {line}")


@contextmanager
def writing() -> Iterator[None]:
    """Report output that cannot be written; a reader that left is no fault."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(f"the output cannot be written: {error.strerror}") from None


def _script(parts: list[Part] | None) -> list[Statement]:
    """Read what to ask; a text without any statement is the session's to refuse."""
    if parts is None:
        if sys.stdin.isatty():
            raise UsageError("nothing to ask: give -c SQL or -f FILE, or pipe statements in")
        piped = _decoded(sys.stdin.buffer.read(), "standard input")
        return statements(piped) or [Statement(piped, 1)]
    script = []
    for part in parts:
        if part.from_file:
            text = read_file(part.text)
            script += statements(text) or [Statement(text, 1)]
        else:
            text = _decoded(os.fsencode(part.text), "the text after -c")
            script.append(Statement(text, 1))
    return script


def read_file(file: str) -> str:
    """Read a file of statements."""
    try:
        return _decoded(Path(file).read_bytes(), file)
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from None


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{name} is not UTF-8") from None


@contextmanager
def answers_to(options: Namespace) -> Iterator[Output]:
    """Open where answers go, without touching what stands there already."""
    intervals = getattr(options, "intervals", False)
    if options.out is None:
        if options.format in BINARY and sys.stdout.isatty():
            raise UsageError(f"{options.format} is not for terminals: name a file with -o")
        yield Output(options.format, sys.stdout.buffer, intervals=intervals)
        return
    output = open_output(options.out, options.format)
    output.intervals = intervals
    try:
        yield output
    finally:
        output.close()


def open_output(file: str, form: str) -> Output:
    """Open a file for answers, and leave what stands there until the first one comes."""
    try:
        stream = os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666), "wb")
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from None
    return Output(form, stream, stat.S_ISREG(os.fstat(stream.fileno()).st_mode))


@dataclass
class Output:
    """Writes one answer after the other; an older file gives way when the first one comes."""

    form: str
    stream: IO[bytes]
    replaces: bool = False
    written: bool = False
    intervals: bool = False
    """Whether the ends of intervals are columns of their own."""

    def write(self, answer: Answer) -> None:
        """Write one answer, apart from the one before it."""
        shown = answer.with_intervals() if self.intervals else answer
        self.put(lambda stream: FORMATS[self.form](shown, stream))

    def put(self, write: Callable[[IO[bytes]], object]) -> None:
        """Have something written, apart from what came before it."""
        if self.replaces and not self.written:
            self.stream.truncate(0)
        elif self.written:
            self.stream.write(b"\n")
        write(self.stream)
        self.stream.flush()
        self.written = True

    def close(self) -> None:
        """Close the file; each answer was flushed, and a full disk is reported by then."""
        with suppress(OSError):
            self.stream.close()


def stopped(stop: KeyboardInterrupt) -> str:
    """Return what ctrl-C has left of a statement: the session knows once a charge has begun."""
    return str(stop) or "stopped; this statement spent nothing"


def _comment(answer: Answer, noted: set[str]) -> None:
    """Write what belongs to an answer but is no data; each note once."""
    for note in answer.notes:
        if note not in noted:
            say(f"note: {visible(without_python(note))}")
    noted.update(answer.notes)
    if answer.budget:
        say(f"budget: {answer.budget}")

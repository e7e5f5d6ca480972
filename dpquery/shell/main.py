"""The entry point of the command line: which command, and which exit code.

Heavy packages are loaded by the commands that need them. A mistake of ours that surfaces here
is named by its type and place only: its own text could hold values of the data (I11).
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import shlex
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dpquery.core.source_text import visible, visible_lines
from dpquery.errors import DPQueryError, ExitCode, QueryRefused
from dpquery.errors.pages import explain
from dpquery.shell.arguments import VERBS, UsageError, asked, verb_parser, worded
from dpquery.shell.batch import (
    Connect,
    ask,
    connected,
    open_output,
    open_practice,
    open_session,
    say,
    show,
    unexpected,
    writing,
)

if TYPE_CHECKING:
    from dpquery.client.remote import AnySession
    from dpquery.policy.model import Policy
    from dpquery.policy.owner.data_validation import Finding

LARGE = 100_000
"""Objects that are made before the first look for those that nothing needs any more."""

# The shell: its own packages are loaded only where a person is there.

_PACKAGES = frozenset({"prompt_toolkit", "pygments", "rich"})
_MISSING = (
    "the shell needs packages that are not installed: pip install 'dpquery[shell]'\n"
    "(without them: give -c SQL or -f FILE, or pipe statements in)"
)


def at_terminal() -> bool:
    """Return whether somebody types and reads here."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def converse(session: AnySession, options: Namespace, header: str = "") -> None:
    """Open the shell on a session until the person leaves."""
    try:
        from dpquery.shell.repl import Repl
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in _PACKAGES:
            raise
        raise UsageError(_MISSING) from None
    repl = Repl(session, session.analyst, options.format)
    repl.desk.intervals = options.intervals
    if options.out is not None:
        repl.desk.direct(open_output(options.out, options.format))
    if header:
        repl.desk.console.say(header)
    repl.run()


# `dpquery demo`: everything goes to standard output, refusals too: they are part of the show.

_QUERIES = (
    "SELECT dept, DP_COUNT(*, eps=0.5) AS n, DP_AVG(salary, eps=0.5) AS pay "
    "FROM staff GROUP BY dept",
    "SELECT DP_QUANTILE(salary, 0.1, eps=0.5) AS tenth FROM staff",
    "SELECT dept, salary FROM staff GROUP BY dept",
)


def demo(connect: Connect) -> int:
    """Ask the sample data each query, and print what comes back."""
    from dpquery.policy.sources.paths import copy_samples

    with tempfile.TemporaryDirectory(prefix="dpquery-demo-") as place:
        with connect(str(copy_samples(Path(place) / "shown"))) as session:
            for query in _QUERIES:
                show(f"dp> {query};\n{_reply(query, session)}\n")
        if at_terminal():
            show("Your turn, on a fresh copy of the samples with its whole budget.")
            options = asked([str(copy_samples(Path(place) / "samples"))])
            with connect(options.source) as session:
                converse(session, options)
    return ExitCode.ANSWER


def _reply(query: str, session: AnySession) -> str:
    try:
        answer = session.sql(query)
    except QueryRefused as refusal:
        return str(refusal)
    notes = "".join(f"\nnote: {note}" for note in answer.notes)
    return f"{answer}{notes}\nbudget: {answer.budget}"


# The commands that open no session. `policy` and `ledger` are the data owner's: they go to the
# owner's files directly and charge nothing.


def _explain(options: Namespace) -> int:
    try:
        show(explain(options.argument or ""))
    except LookupError as error:
        raise UsageError(error.args[0]) from None
    return ExitCode.ANSWER


def _answer(question: str) -> str:
    """Read an answer where somebody types; standard output may be a file."""
    try:
        if sys.stdout.isatty():
            return input(question)
        sys.stderr.write(question)
        sys.stderr.flush()
        return input()
    except EOFError:
        raise KeyboardInterrupt from None


def _policy_init(options: Namespace) -> int:
    from dpquery.engine.file_checks import schemas_of
    from dpquery.policy.owner.draft import draft

    out = None if options.out is None else Path(options.out).absolute()
    if out is not None and os.path.lexists(out):
        raise UsageError(f"{options.out} is there already: name a new file")
    if options.interactive and not sys.stdin.isatty():
        raise UsageError("--interactive asks on a terminal, and none is here: leave it out")
    drafted = draft(options.argument, schemas_of, out)
    if options.interactive:
        from dpquery.shell.policy_interview import Interview

        place = out or Path("policy.toml").absolute()
        text = Interview(drafted, _answer, say, place).hold()
    else:
        text = drafted.text()
    if out is None:
        show(text.rstrip())
    else:
        with writing(), out.open("x", encoding="utf-8") as file:
            file.write(text)
    return ExitCode.ANSWER


def _changed_files(policy: Policy) -> list[Finding]:
    """Find the tables of which no query is answered before their files are published.

    No query of any table is, where the ledger has no folder to be in.
    """
    from dpquery.budget.ledger.ledger import ledger_exists, open_ledger
    from dpquery.engine.file_checks import DataChanged, drifted
    from dpquery.policy.owner.data_validation import Finding, Severity

    if not ledger_exists(policy.ledger):
        place = policy.ledger.path
        if place is None or place.parent.exists():
            return []
        missing = f"its folder does not exist: mkdir -m 700 {shlex.quote(str(place.parent))}"
        return [Finding(Severity.FAULT, "ledger", None, missing)]
    with closing(open_ledger(policy.ledger)) as ledger:
        try:
            found = list(drifted(policy, ledger))
        except (OSError, DataChanged):  # which is a fault that is told elsewhere
            return []
    more = "until then each query of it is charged, and fails"
    return [Finding(Severity.FAULT, name, None, f"{why}; {more}") for name, why in found]


def _policy_check(options: Namespace) -> int:
    from dpquery.engine.file_checks import misfits_of, rows_of
    from dpquery.policy.load import load_policy
    from dpquery.policy.owner.data_validation import Severity, check

    if options.json and not options.review:
        raise UsageError("--json writes a review: dpquery policy check FILE --review --json")
    policy = load_policy(options.argument)
    if options.review:
        from dpquery.policy.owner.review import review

        found = review(policy, misfits_of, rows_of)
        found = replace(found, findings=(*_changed_files(policy), *found.findings))
        show(
            json.dumps(found.document(), indent=2)
            if options.json
            else visible_lines(str(found))
        )
        findings = list(found.findings)
    else:
        findings = [*_changed_files(policy), *check(policy, misfits_of, rows_of)]
        for one in findings:
            place = one.place if one.column is None else f"{one.place}.{one.column}"
            show(f"{one.severity}: {visible(place)}: {visible(one.text)}")
        if not findings:
            show("the data hold what the policy says")
    if any(one.severity is Severity.FAULT for one in findings):
        return ExitCode.USAGE
    doubted = options.review and any(one.severity is Severity.WARNING for one in findings)
    return ExitCode.REFUSED if doubted else ExitCode.ANSWER


def _of(module: str, name: str) -> Callable[[Namespace], int]:
    """Return a command of a module that is loaded when it runs."""

    def run(options: Namespace) -> int:
        getattr(importlib.import_module(f"dpquery.shell.{module}"), name)(options)
        return ExitCode.ANSWER

    return run


_LEDGER_VERBS = ("losses", "verify", "export", "backup", "freeze", "thaw", "grant")
_VERBS: dict[tuple[str, ...], tuple[str, Callable[[Namespace], int]]] = {
    ("explain",): ("TOPIC", _explain),
    ("lab",): ("TOPIC", _of("lab", "lab")),
    ("policy", "init"): ("SOURCE", _policy_init),
    ("policy", "check"): ("FILE", _policy_check),
    ("policy", "publish"): ("POLICY", _of("ledger_commands", "publish")),
    ("ledger", "show"): ("POLICY", _of("ledger_commands", "show_charges")),
    **{("ledger", verb): ("POLICY", _of("ledger_commands", verb)) for verb in _LEDGER_VERBS},
    ("serve",): ("POLICY", _of("server_commands", "serve")),
    ("user", "add"): ("POLICY", _of("server_commands", "add")),
    ("user", "passwd"): ("POLICY", _of("server_commands", "passwd")),
    ("user", "list"): ("POLICY", _of("server_commands", "list_")),
    ("user", "remove"): ("POLICY", _of("server_commands", "remove")),
}
"""What each takes, and what runs it."""
FIRST_WORDS = frozenset(VERBS) - {"demo", "practice"}


def run_verb(argv: list[str]) -> int:
    """Run the verb that the command line starts with."""
    for words, (argument, run) in _VERBS.items():
        if argv[: len(words)] == list(words):
            parser = verb_parser(*words, argument=argument)
            options = parser.parse_args(argv[len(words) :])
            return run(options)
    usual = {words: f"dpquery {' '.join(words)} {_VERBS[words][0]}" for words in _VERBS}
    meant = [
        usage + " NAME" * (words[0] == "user" and words[1] != "list")
        for words, usage in usual.items()
        if words[0] == argv[0]
    ]
    if argv[1:2] in (["-h"], ["--help"]):
        show("\n".join(("usage:", *(f"  {usage}" for usage in meant))))
        return ExitCode.ANSWER
    raise UsageError(f"write {', or '.join(meant)}")


def entry() -> None:
    """Run the command that the process was started with, and end the process.

    What starting makes is there until the end: to look through it for what can be let go of,
    and to take it down piece by piece, would take a quarter of the time of a small query.
    """
    gc.set_threshold(LARGE)
    code = main(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # `main` has reported it
            stream.flush()
    os._exit(code)


def main(argv: Sequence[str], connect: Connect = open_session) -> int:
    """Run one command and give its exit code; `connect` opens the session."""
    try:
        code = _run(list(argv), connect)
    except DPQueryError as error:
        say(worded(error))
        code = error.exit_code
    except UsageError as error:
        say(f"dpquery: {error}")
        code = ExitCode.USAGE
    except SystemExit as stop:  # argparse has said what there is to say
        code = int(stop.code or ExitCode.ANSWER)
    except KeyboardInterrupt:
        say("stopped")
        code = ExitCode.INTERRUPTED
    except BrokenPipeError:  # whoever read the output has had enough
        code = ExitCode.ANSWER
    except Exception as error:  # noqa: BLE001 - whatever it is, its text must not surface
        say(unexpected(error))
        code = ExitCode.INTERNAL
    return code


def _run(argv: list[str], connect: Connect) -> int:
    match argv:
        case ["demo", *rest]:
            verb_parser("demo").parse_args(rest)
            return demo(connect)
        case ["practice", *rest]:
            from dpquery.connecting import PRACTICE

            return _asking(asked(rest, "dpquery practice"), open_practice, PRACTICE)
        case [word, *_] if word in FIRST_WORDS:
            return run_verb(argv)
    return _asking(asked(argv), connect)


def _asking(options: Namespace, connect: Connect, header: str = "") -> int:
    """Ask what the command line says, or whatever somebody types."""
    if options.script is None and at_terminal() and not options.explain:
        with connected(options, connect) as session:
            converse(session, options, header)
        return ExitCode.ANSWER
    return ask(options, connect)

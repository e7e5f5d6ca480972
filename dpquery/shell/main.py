"""The entry point of the command line: which command, and which exit code.

Heavy packages are loaded by the commands that need them. A mistake of ours that surfaces here
is named by its type and place only: its own text could hold values of the data (I11).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from dpquery.errors import DPQueryError, ExitCode
from dpquery.shell.arguments import UsageError, asked, connect_settings, verb_parser
from dpquery.shell.ask import Connect, ask, open_session, say, unexpected
from dpquery.shell.demo import demo
from dpquery.shell.interactive import at_terminal, converse
from dpquery.shell.verbs import FIRST_WORDS, run_verb

__all__ = ["entry", "main"]


def entry() -> None:
    """Run the command that the process was started with."""
    code = main(sys.argv[1:])
    try:
        sys.stdout.flush()
    except OSError:  # `main` has reported it; the interpreter must not, when it flushes again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def main(argv: Sequence[str], connect: Connect = open_session) -> int:
    """Run one command and give its exit code; `connect` opens the session."""
    try:
        code = _run(list(argv), connect)
    except DPQueryError as error:
        say(error)
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
        case [word, *_] if word in FIRST_WORDS:
            return run_verb(argv)
    options = asked(argv)
    if options.script is None and at_terminal():
        with connect(options.source, **connect_settings(options)) as session:
            converse(
                session,
                options.analyst,
                options.format,
                options.out,
                intervals=options.intervals,
            )
        return ExitCode.ANSWER
    return ask(options, connect)

"""The commands that open no session: explain, policy, ledger.

`policy` and `ledger` are the data owner's: they go to the owner's files directly and charge
nothing.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass

from dpquery.codes import explain
from dpquery.errors import ExitCode
from dpquery.shell.arguments import UsageError, draft_asked, verb_parser
from dpquery.shell.ask import show
from dpquery.source import visible

__all__ = ["FIRST_WORDS", "run_verb"]


def _explain(options: Namespace) -> int:
    try:
        show(explain(options.argument))
    except LookupError as error:
        raise UsageError(error.args[0]) from None
    return ExitCode.ANSWER


def _policy_init(options: Namespace) -> int:
    from dpquery.policy.draft import draft

    show(draft(options.argument).rstrip())
    return ExitCode.ANSWER


def _policy_check(options: Namespace) -> int:
    from dpquery.engine.fit import misfits_of
    from dpquery.policy.check import Severity, check
    from dpquery.policy.load import load_policy

    findings = check(load_policy(options.argument), misfits_of)
    for found in findings:
        place = found.place if found.column is None else f"{found.place}.{found.column}"
        show(f"{found.severity}: {visible(place)}: {visible(found.text)}")
    if not findings:
        show("the data hold what the policy says")
    faulty = any(found.severity is Severity.FAULT for found in findings)
    return ExitCode.USAGE if faulty else ExitCode.ANSWER


def _policy_publish(options: Namespace) -> int:
    from dpquery.shell import owner

    return owner.publish(options)


@dataclass(frozen=True, slots=True)
class _Verb:
    argument: str
    run: Callable[[Namespace], int]
    options: Callable[[ArgumentParser], None] | None = None
    """Adds what may be stated beside the argument."""
    read: Callable[[ArgumentParser, list[str]], Namespace] | None = None
    """Reads the command line, where not every other one is refused in the same words."""


_VERBS: dict[tuple[str, ...], _Verb] = {
    ("explain",): _Verb("CODE", _explain),
    ("policy", "init"): _Verb("FILE", _policy_init, read=draft_asked),
    ("policy", "check"): _Verb("FILE", _policy_check),
    ("policy", "publish"): _Verb("POLICY", _policy_publish),
}


def _ledger_verbs() -> dict[tuple[str, ...], _Verb]:
    from dpquery.shell import owner

    return {
        ("ledger", "show"): _Verb("POLICY", owner.show_charges),
        ("ledger", "losses"): _Verb("POLICY", owner.losses),
        ("ledger", "verify"): _Verb("POLICY", owner.verify),
        ("ledger", "export"): _Verb("POLICY", owner.export, owner.export_options),
        ("ledger", "backup"): _Verb("POLICY", owner.backup, owner.backup_options),
        ("ledger", "freeze"): _Verb("POLICY", owner.freeze),
        ("ledger", "thaw"): _Verb("POLICY", owner.thaw, owner.thaw_options),
        ("ledger", "grant"): _Verb("POLICY", owner.grant, owner.grant_options),
    }


FIRST_WORDS = frozenset({"explain", "policy", "ledger"})


def run_verb(argv: list[str]) -> int:
    """Run the verb that the command line starts with."""
    verbs = _ledger_verbs() if argv[0] == "ledger" else _VERBS
    for words, verb in verbs.items():
        if argv[: len(words)] == list(words):
            parser = verb_parser(*words, argument=verb.argument)
            if verb.options is not None:
                verb.options(parser)
            rest = argv[len(words) :]
            return verb.run((verb.read or ArgumentParser.parse_args)(parser, rest))
    usual = (" ".join((*words, verb.argument)) for words, verb in verbs.items())
    raise UsageError(
        "write " + ", or ".join(f"dpquery {u}" for u in usual if u.startswith(argv[0]))
    )

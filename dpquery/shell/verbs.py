"""The commands that open no session: explain, policy, ledger.

`policy` and `ledger` are the data owner's: they read the owner's files directly and charge
nothing. Only publishing makes a ledger, where there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

from dpquery.codes import explain
from dpquery.errors import ExitCode
from dpquery.layout import TextColumn, cell_text, lay_out
from dpquery.shell.arguments import UsageError, verb_parser
from dpquery.shell.ask import show
from dpquery.source import visible

if TYPE_CHECKING:
    from dpquery.budget.ledger import Ledger
    from dpquery.policy.model import Policy

__all__ = ["FIRST_WORDS", "run_verb"]


def _explain(code: str) -> int:
    try:
        show(explain(code))
    except LookupError as error:
        raise UsageError(error.args[0]) from None
    return ExitCode.ANSWER


def _policy_init(file: str) -> int:
    from dpquery.policy.draft import draft

    show(draft(file).rstrip())
    return ExitCode.ANSWER


def _policy_check(file: str) -> int:
    from dpquery.policy.check import Severity, check
    from dpquery.policy.load import load_policy

    findings = check(load_policy(file))
    for found in findings:
        place = found.table if found.column is None else f"{found.table}.{found.column}"
        show(f"{found.severity}: {visible(place)}: {visible(found.text)}")
    if not findings:
        show("the data hold what the policy says")
    faulty = any(found.severity is Severity.FAULT for found in findings)
    return ExitCode.USAGE if faulty else ExitCode.ANSWER


def _policy_publish(file: str) -> int:
    from dpquery.budget.ledger import open_ledger
    from dpquery.policy.load import load_policy

    with closing(open_ledger(load_policy(file).ledger)) as ledger:
        version = ledger.publish()
    show(f"data version {version} is published: what was answered before is paid again")
    return ExitCode.ANSWER


def _ledger_show(file: str) -> int:
    policy, ledger = _existing_ledger(file)
    with closing(ledger):
        analysts = policy.analysts or ["default"]
        charges = [(entry, name) for name in analysts for entry in ledger.entries(name)]
    charges.sort(key=lambda charge: charge[0].when)
    show(
        lay_out(
            [
                TextColumn("when", [f"{entry.when:%Y-%m-%d %H:%M:%S}" for entry, _ in charges]),
                TextColumn("analyst", [cell_text(name) for _, name in charges]),
                TextColumn("loss", [str(entry.loss) for entry, _ in charges], right=True),
                TextColumn("query", [cell_text(entry.query) for entry, _ in charges]),
            ]
        )
    )
    return ExitCode.ANSWER


def _ledger_losses(file: str) -> int:
    from dpquery.budget.reported import COLUMNS, row

    policy, ledger = _existing_ledger(file)
    whole = policy.budget.ceiling
    with closing(ledger):
        of = {name: ledger.entries(name) for name in policy.analysts or ["default"]}
    rows = [
        row(visible(name), entries, policy.analysts.get(name, whole))
        for name, entries in of.items()
    ]
    if len(of) > 1:
        every = [entry for entries in of.values() for entry in entries]
        rows.append(row("all together", every, whole))
    columns = zip(*([text or "–" for text in texts] for texts in rows), strict=True)
    show(
        lay_out([TextColumn(head, texts) for head, texts in zip(COLUMNS, columns, strict=True)])
    )
    return ExitCode.ANSWER


def _ledger_verify(file: str) -> int:
    _, ledger = _existing_ledger(file)
    with closing(ledger):
        charges = ledger.verify()
    show(f"the ledger holds together; charges in it: {charges}")
    return ExitCode.ANSWER


def _existing_ledger(file: str) -> tuple[Policy, Ledger]:
    """Open the ledger of a policy; looking must not make one."""
    from dpquery.budget.ledger import open_ledger
    from dpquery.policy.load import load_policy

    policy = load_policy(file)
    path = policy.ledger.path
    if path is None or not path.exists():
        raise UsageError(f"nothing has been charged under {file} yet: there is no ledger")
    return policy, open_ledger(policy.ledger)


_VERBS: dict[tuple[str, ...], tuple[str, Callable[[str], int]]] = {
    ("explain",): ("CODE", _explain),
    ("policy", "init"): ("FILE", _policy_init),
    ("policy", "check"): ("FILE", _policy_check),
    ("policy", "publish"): ("POLICY", _policy_publish),
    ("ledger", "show"): ("POLICY", _ledger_show),
    ("ledger", "losses"): ("POLICY", _ledger_losses),
    ("ledger", "verify"): ("POLICY", _ledger_verify),
}

FIRST_WORDS = frozenset(words[0] for words in _VERBS)


def run_verb(argv: list[str]) -> int:
    """Run the verb that the command line starts with."""
    for words, (argument, command) in _VERBS.items():
        if argv[: len(words)] == list(words):
            parser = verb_parser(*words, argument=argument)
            return command(parser.parse_args(argv[len(words) :]).argument)
    usual = (" ".join((*words, argument)) for words, (argument, _) in _VERBS.items())
    raise UsageError(
        "write " + ", or ".join(f"dpquery {u}" for u in usual if u.startswith(argv[0]))
    )

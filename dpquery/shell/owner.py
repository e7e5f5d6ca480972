"""The data owner's commands over a ledger: look, check, take along.

They read the ledger itself, whoever made its charges; whoever can read and write its file can
run them.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import closing
from typing import TYPE_CHECKING

from dpquery.errors import ExitCode
from dpquery.layout import TextColumn, cell_text, lay_out
from dpquery.shell.arguments import UsageError
from dpquery.shell.ask import answers_to, show, writing
from dpquery.source import visible

if TYPE_CHECKING:
    from dpquery.budget.ledger import Ledger
    from dpquery.policy.model import Policy

__all__ = ["export", "export_options", "losses", "show_charges", "verify"]


def show_charges(options: Namespace) -> int:
    """List what has been charged, oldest first."""
    policy, ledger = _existing(options.argument)
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


def losses(options: Namespace) -> int:
    """Show what charges add up to, as each accountant puts it."""
    from dpquery.budget.reported import COLUMNS, row

    policy, ledger = _existing(options.argument)
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


def verify(options: Namespace) -> int:
    """Replay the whole ledger."""
    _, ledger = _existing(options.argument)
    with closing(ledger):
        charges = ledger.verify()
    show(f"the ledger holds together; charges in it: {charges}")
    return ExitCode.ANSWER


def export_options(parser: ArgumentParser) -> None:
    """Add where the export goes, and as what."""
    parser.add_argument("-o", dest="out", metavar="FILE", help="write to a file")
    parser.add_argument("--format", choices=["csv", "json", "dp-accounting"], default="csv")


def export(options: Namespace) -> int:
    """Write all charges with their events."""
    from dpquery.answer import Answer
    from dpquery.budget.exported import dp_events
    from dpquery.catalogue import every_charge
    from dpquery.privacy import NO_LOSS

    _, ledger = _existing(options.argument)
    with closing(ledger):
        records = ledger.history()
    with answers_to(options) as output, writing():
        if options.format == "dp-accounting":
            text = "".join(f"{event!r}\n" for event in dp_events(records))
            output.put(lambda stream: stream.write(text.encode()))
        else:
            output.write(Answer(every_charge(records), NO_LOSS, (), "", ()))
    return ExitCode.ANSWER


def _existing(file: str) -> tuple[Policy, Ledger]:
    """Open the ledger of a policy; looking must not make one."""
    from dpquery.budget.ledger import open_ledger
    from dpquery.policy.load import load_policy

    policy = load_policy(file)
    path = policy.ledger.path
    if path is None or not path.exists():
        raise UsageError(f"nothing has been charged under {file} yet: there is no ledger")
    return policy, open_ledger(policy.ledger)

"""The data owner's commands over a ledger: look, check, export, and give orders.

They read the ledger itself, whoever made its charges; whoever can read and write its file can
run them.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from fractions import Fraction
from functools import partial
from pathlib import Path

from dpquery.budget.ledger.charge_and_receipt import Account, Ceilings
from dpquery.budget.ledger.ledger import Ledger, ledger_exists, open_ledger
from dpquery.budget.ledger.owner_orders import Promise, digest
from dpquery.core.privacy_loss import BUDGET_MAX, NO_LOSS, Loss, decimal_text, exact_number
from dpquery.core.source_text import visible
from dpquery.core.text_table import TextColumn, cell_text, lay_out
from dpquery.errors import listed
from dpquery.policy.load import ledger_of_ones_own, load_policy
from dpquery.policy.model import LedgerSettings, Policy
from dpquery.shell.arguments import UsageError
from dpquery.shell.batch import answers_to, show, writing


def show_charges(options: Namespace) -> None:
    """List what has been charged and ordered, oldest first, and what stands now."""
    from dpquery.budget.ledger.report import history_row
    from dpquery.session_methods.tables_and_charges import remarks

    with _existing(options.argument) as (policy, ledger):
        records = [(record, row) for record in ledger.history() if (row := history_row(record))]
        orders = ledger.orders()
    said = iter(remarks([one.entry() for one, _ in records if not one.is_order], policy))
    told = ["" if one.is_order else cell_text(next(said)) for one, _ in records]
    # In a column of its own: whoever asks could write anything behind a query.
    heads = ["when", "analyst", "loss", "query", *(["remark"] if any(told) else [])]
    rows = [
        (*row, remark)[: len(heads)] for (_, row), remark in zip(records, told, strict=True)
    ]
    show(_laid_out(heads, rows, right="loss"))
    if orders.promise is not None:
        show(f"counted: {_told(orders.promise)}")
    if orders.frozen:
        show("frozen: no query is charged")
    for name, failed in orders.suspended.items():
        show(f"frozen after {failed} failures: {visible(name)}")


def _laid_out(heads: Sequence[str], rows: Sequence[Sequence[str]], right: str = "") -> str:
    columns = zip(*rows, strict=True) if rows else [()] * len(heads)
    each = zip(heads, columns, strict=True)
    return lay_out([TextColumn(head, texts, head == right) for head, texts in each])


def _told(promise: Promise) -> str:
    units = [f"{name} {unit}" for name, unit in promise.units if name.startswith("table ")]
    tables = ", ".join(unit.removeprefix("table ") for unit in units)
    return visible(f"{promise.neighbours}; {tables} ({digest(promise)})")


def losses(options: Namespace) -> None:
    """Show what charges add up to, as each accountant puts it."""
    from dpquery.budget.ledger.report import COLUMNS, row

    with _existing(options.argument) as (policy, ledger):
        of = {
            name: [entry.events for entry in ledger.entries(name)]
            for name in policy.analysts or ["default"]
        }
        orders = ledger.orders()
    whole, rows = policy.budget.ceiling, []
    for name, charges in of.items():
        limits = orders.raised(Ceilings(whole, policy.analysts.get(name)), name)
        rows.append(row(visible(name), charges, limits.analyst or whole))
    if len(of) > 1:
        every = [events for charges in of.values() for events in charges]
        rows.append(row("all together", every, whole))
    show(_laid_out(COLUMNS, [[text or "–" for text in texts] for texts in rows]))


def verify(options: Namespace) -> None:
    """Replay the whole ledger."""
    with _existing(options.argument) as (_, ledger):
        show(f"the ledger holds together; charges in it: {ledger.verify()}")


def export(options: Namespace) -> None:
    """Write all charges with their events."""
    from dpquery.answer import Answer
    from dpquery.budget.ledger.report import dp_events
    from dpquery.session_methods.tables_and_charges import every_charge

    with _existing(options.argument) as (_, ledger):
        records = ledger.history()
    with answers_to(options) as output, writing():
        if options.format == "dp-accounting":
            text = "".join(f"{event!r}\n" for event in dp_events(records))
            output.put(lambda stream: stream.write(text.encode()))
        else:
            output.write(Answer(every_charge(records), NO_LOSS, (), "", ()))


def backup(options: Namespace) -> None:
    """Copy the ledger to a new file, while sessions charge."""
    file = Path(options.file).absolute()
    if os.path.lexists(file):
        raise UsageError(f"{options.file} is there already: name a new file")
    with _existing(options.argument) as (_, ledger):
        ledger.backup(file)
    with closing(open_ledger(LedgerSettings(file))) as copy:
        charges = copy.verify()
    Path(f"{file}.lock").unlink(missing_ok=True)  # nobody but this has opened the copy yet
    show(f"the copy holds together; charges in it: {charges}")


def freeze(options: Namespace) -> None:
    """Refuse every charge from here on."""
    with _opened(options.argument) as (_, ledger):
        new = ledger.freeze()
    show("frozen: no query is charged until dpquery ledger thaw" if new else "frozen already")


def thaw(options: Namespace) -> None:
    """Make charges again, and forgive failures; of a policy, or of a ledger without one."""
    named: str = options.argument
    of_policy = named.lower().endswith(".toml")
    settings = load_policy(named).ledger if of_policy else ledger_of_ones_own(named)
    if not ledger_exists(settings):
        raise UsageError(f"there is no ledger to thaw under {named}")
    with closing(open_ledger(settings)) as ledger:
        new = ledger.thaw(options.analyst)
    show("thawed: queries are charged again" if new else "not frozen")


def publish(options: Namespace) -> None:
    """Begin another version of the data."""
    with _opened(options.argument) as (policy, ledger):
        version = ledger.publish()
    show(f"data version {version} begins: to ask anything again is paid")
    if any(table.parting is not None for table in policy.tables.values()):
        show("parts begin anew: everybody is taken to have lost what was lost most so far")


def grant(options: Namespace) -> None:
    """Raise what one analyst may spend, by or to an amount, up to the policy's total."""
    by = options.to is None
    option, text = ("--add", options.add) if by else ("--to", options.to)
    epsilon = _amount(text, option)
    delta = None if options.delta is None else _amount(options.delta, "--delta")
    if not epsilon:
        raise UsageError(f"{option} must be above 0")
    with _opened(options.argument) as (policy, ledger):
        name, known = options.analyst, policy.analysts
        if known and name not in known:
            raise UsageError(f"the policy has no analyst {name!r}; it has {listed(known)}")
        limits = Ceilings(policy.budget.ceiling, known.get(name))
        if by:
            limit = ledger.grant(name, Loss(epsilon, delta or Fraction(0)), limits)
        else:
            limit = ledger.grant_up_to(name, epsilon, delta, limits)
        binding = ledger.standing(limits, Account(name, ""))
    show(f"{visible(name)} may spend {limit} in all")
    if binding.name == "policy":
        left = f"{decimal_text(binding.left.epsilon)} of {decimal_text(binding.limit.epsilon)}"
        show(f"the policy's total is reached first: {left} is left for everybody together")


def _amount(text: str, option: str) -> Fraction:
    try:
        number = exact_number(text)
    except ValueError as error:
        raise UsageError(f"{option} is {error}: {text!r}") from None
    if not 0 <= number <= BUDGET_MAX:
        raise UsageError(f"{option} must lie between 0 and {BUDGET_MAX}: {text!r}")
    return number


@contextmanager
def _opened(file: str, *, looking: bool = False) -> Iterator[tuple[Policy, Ledger]]:
    """Open the ledger of a policy: to order is to make one, and to look is not."""
    if not file.lower().endswith(".toml"):
        raise UsageError(
            "name the policy whose ledger it is, such as policy.toml; without one, write "
            f'dpquery FILE --ledger {file} -c "SHOW LEDGER", FILE being what it is about'
        )
    policy = load_policy(file)
    if looking and not ledger_exists(policy.ledger):
        raise UsageError(f"nothing has been charged under {file} yet: there is no ledger")
    with closing(open_ledger(policy.ledger)) as ledger:
        yield policy, ledger


_existing = partial(_opened, looking=True)

"""The dot commands: one line each in COMMANDS, from which help and completion are made.

They change how the shell asks and shows; what they know of tables, budget and charges they ask
of the session as statements, like the analyst.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

from dpquery.core.privacy_loss import exact_number
from dpquery.display.formats import FORMATS
from dpquery.editing.completion import Known, Suggestion, matching, signature, suggestions
from dpquery.editing.cursor_context import statements
from dpquery.errors import nearest
from dpquery.errors import pages as codes
from dpquery.functions import ALL, find, names
from dpquery.functions.base import DPFunction
from dpquery.shell.arguments import UsageError
from dpquery.shell.ask_and_show import Desk
from dpquery.shell.batch import open_output, read_file
from dpquery.sql.bind.scope import written_name

_HABITS = {"help": ".help", "?": ".help", "\\?": ".help"} | dict.fromkeys(
    ("exit", "quit", "\\q"), ".quit"
)
"""What people type out of habit, and the command they mean."""

_EXAMPLE = "SELECT DP_COUNT(*, eps=0.1) AS n FROM"


@dataclass(frozen=True, slots=True)
class Command:
    """One dot command."""

    name: str
    argument: str
    """As help shows it, in brackets where it may be left out; empty where there is none."""
    summary: str
    run: Callable[[Desk, str], bool]
    """Runs it with what follows the name; says whether all went well."""
    choices: tuple[str, ...] = ()

    @property
    def usage(self) -> str:
        """The command as it is typed."""
        return f"{self.name} {self.argument}".rstrip()


def is_command(text: str) -> bool:
    """Return whether a text is for the shell and not for the session."""
    return text.lstrip().startswith(".") or _habit(text) is not None


def _habit(text: str) -> str | None:
    return _HABITS.get(text.strip().rstrip(";").lower())


def take(desk: Desk, text: str) -> bool:
    """Do what was typed, a command or statements; say whether all of it went well."""
    if not is_command(text):
        return desk.ask_each(statements(text))
    name, _, rest = (_habit(text) or text).strip().partition(" ")
    try:
        command = _command(name.removesuffix(";"))
        return command.run(desk, _argument(command, rest.strip()))
    except UsageError as error:
        desk.console.say(error, "red")
        return False


def _command(name: str) -> Command:
    """Find a command by its name, or by a beginning that is no other's."""
    found = [c for c in COMMANDS if c.name.startswith(name.lower())] if name != "." else []
    exact = [command for command in found if command.name == name.lower()]
    if len(exact or found) == 1:
        return (exact or found)[0]
    if found:
        names = " or ".join(command.name for command in found)
        raise UsageError(f"{name} could be {names}")
    near = nearest(name, [command.name for command in COMMANDS])
    hint = f"; {near} is the nearest" if near else ""
    raise UsageError(f"there is no command {name[:40]}{hint}; .help lists them")


def _argument(command: Command, text: str) -> str:
    argument = text.removesuffix(";").rstrip()
    needed = command.argument and not command.argument.startswith("[")
    if (needed and not argument) or (argument and not command.argument):
        raise UsageError(f"write {command.usage}")
    if command.choices and argument.lower() not in command.choices:
        raise UsageError(f"write {command.name} {' or '.join(command.choices)}")
    return argument.lower() if command.choices else argument


def _help(desk: Desk, word: str) -> bool:
    desk.console.say(_page(word) if word else _overview(desk))
    return True


def _overview(desk: Desk) -> str:
    tables = [
        row["table"] for row in desk.session.tables().to_dicts() if row["public"] is False
    ]
    widest = max(len(command.usage) for command in COMMANDS)
    lines = [f"{command.usage:<{widest}}   {command.summary}" for command in COMMANDS]
    return "\n".join([
        "Statements end with a semicolon; commands begin with a dot and may be shortened.",
        "",
        *lines,
        "",
        *(f"try: {_EXAMPLE} {written_name(name)};" for name in tables[:1]),
    ])  # fmt: skip


def _page(word: str) -> str:
    """Return the page of a function, of a command, or of the code of a refusal."""
    function = find(word)
    if function is not None:
        return _function_page(function)
    if word.startswith("."):
        command = _command(word)
        return f"{command.usage}   {command.summary}"
    try:
        return codes.explain(word.upper())
    except LookupError:
        near = nearest(word, names())
        hint = f"{near} is the nearest" if near else "name a DP_ function, a command or a code"
        raise UsageError(f"there is no help on {word[:40]!r}; {hint}") from None


def _function_page(function: DPFunction) -> str:
    widest = max(len(parameter.name) for parameter in function.parameters)
    options = [f"  {p.name:<{widest}}   {p.summary}" for p in function.parameters]
    also = [f"also: {', '.join(function.aliases)}"] if function.aliases else []
    mechanisms = f"mechanisms: {', '.join(function.mechanisms)}"
    return "\n".join([
        signature(function), function.summary, *also, "", *options, "",
        mechanisms, f"try: {function.example};",
    ])  # fmt: skip


def _asking(statement: str) -> Callable[[Desk, str], bool]:
    """Make a command that stands for a statement, to which it adds its argument."""
    return lambda desk, argument: desk.ask(f"{statement} {argument}".rstrip())


def _mode(desk: Desk, form: str) -> bool:
    desk.mode = form
    return True


def _timer(desk: Desk, state: str) -> bool:
    desk.timer = state == "on"
    return True


def _intervals(desk: Desk, state: str) -> bool:
    desk.intervals = state == "on"
    return True


def _read(desk: Desk, file: str) -> bool:
    return desk.ask_each(statements(read_file(_unquoted(file))))


def _output(desk: Desk, file: str) -> bool:
    desk.direct(None if file == "stdout" else open_output(_unquoted(file), desk.mode))
    return True


def _confirm(desk: Desk, text: str) -> bool:
    if text == "off":
        desk.confirm = None
        return True
    try:
        share = exact_number(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = Fraction(-1)
    if not 0 <= share <= 1:
        raise UsageError("write .confirm 0.25, a share of what is left, or .confirm off")
    desk.confirm = share
    return True


def _quit(desk: Desk, _: str) -> bool:
    desk.leaving = True
    return True


def _unquoted(file: str) -> str:
    quotes = len(file) > 1 and file[0] == file[-1] and file[0] in "'\""
    return file[1:-1] if quotes else file


def _price(amount: str) -> str:
    """Return the statement that sets the epsilon of those to come."""
    return "RESET dp.eps" if amount.lower() == "off" else f"SET dp.eps = {amount}"


COMMANDS = (
    Command(".help", "[WORD]", "this list, or about a function, a command, a code", _help),
    Command(".tables", "", "the tables of the policy", _asking("SHOW TABLES")),
    Command(".describe", "TABLE", "the columns of a table", _asking("DESCRIBE")),
    Command(".budget", "", "what may be spent, is spent, is left", _asking("SHOW BUDGET")),
    Command(".ledger", "", "what has been charged so far", _asking("SHOW LEDGER")),
    Command(".explain", "SQL", "what a query would spend, and how it is answered; free",
            lambda desk, query: desk.tell(lambda: desk.session.explain(query))),
    Command(".mode", "FORMAT", f"how answers are shown: {', '.join(FORMATS)}", _mode,
            tuple(FORMATS)),
    Command(".again", "", "the last answer once more, in the mode of now; free",
            lambda desk, _: desk.again()),
    Command(".plot", "[COLUMN]", "the last answer as bars, or as a line over dates; free",
            lambda desk, column: desk.plot(_unquoted(column))),
    Command(".eps", "E|off", "what each statement may spend on plain aggregates",
            lambda desk, amount: desk.ask_each(statements(_price(amount)))),
    Command(".timer", "on|off", "how long each answer took", _timer, ("on", "off")),
    Command(".intervals", "on|off", "n_low and n_high beside each noisy n (95 %)", _intervals,
            ("on", "off")),
    Command(".read", "FILE", "ask the statements of a file, up to the first failure", _read),
    Command(".output", "FILE|stdout", "where answers go", _output),
    Command(".confirm", "SHARE|off", "ask before a query spends more of the rest", _confirm),
    Command(".quit", "", "leave; so does ctrl-D", _quit),
)  # fmt: skip


def suggested(text: str, known: Known, answered: Iterable[str] = ()) -> list[Suggestion]:
    """Suggest how a command that is being typed could go on.

    Args:
        text: what is typed so far.
        known: tables and their columns.
        answered: the columns of the last answer.
    """
    name, blank, rest = text.lstrip().partition(" ")
    if not blank:
        return matching(((c.name, c.summary) for c in COMMANDS), name, len(text) - len(name))
    try:
        command = _command(name)
    except UsageError:
        return []
    if command.argument == "SQL":
        inside = suggestions(f"EXPLAIN {rest}", "", known)
        moved = len(text) - len(f"EXPLAIN {rest}")
        return [replace(one, start=one.start + moved) for one in inside]
    typed = rest.lstrip()
    return matching(_arguments(command, known, answered), typed, len(text) - len(typed))


def _arguments(
    command: Command, known: Known, answered: Iterable[str]
) -> Iterable[tuple[str, str]]:
    match command.argument:
        case "[COLUMN]":
            return ((name, "of the last answer") for name in answered)
        case "TABLE":
            return ((written_name(name), "table") for name in known)
        case "SHARE|off":
            return (("0.1", ""), ("0.25", "as it begins"), ("0.5", ""), ("off", ""))
        case "FILE|stdout":
            return (("stdout", "the screen"),)
        case "[WORD]":
            functions = ((function.name, function.summary) for function in ALL)
            return [*functions, *((command.name, command.summary) for command in COMMANDS)]
    return ((choice, "") for choice in command.choices)

"""The data owner's commands around a server: `dpquery serve`, and who may log in to it."""

from __future__ import annotations

import asyncio
import getpass
import os
import secrets
import sys
from argparse import Namespace
from pathlib import Path

from dpquery.core.source_text import visible
from dpquery.policy.load import load_policy
from dpquery.server.users import Users, analysts_of, require_analyst
from dpquery.shell.arguments import UsageError
from dpquery.shell.batch import say, show

_BYTES = {"GB": 1 << 30, "MB": 1 << 20}


def serve(options: Namespace) -> None:
    """Serve a policy until the process is told to stop."""
    try:
        from dpquery.server.serve import Doors, Place, Unservable
        from dpquery.server.serve import serve as run
        from dpquery.server.service import Settings
    except ModuleNotFoundError as missing:
        raise UsageError(f"{missing.name} is missing: pip install 'dpquery[server]'") from None
    policy = Path(options.argument).absolute()
    settings = Settings(policy, options.workers, _memory(options.memory), options.connections)
    certificate, key = map(_path, (options.tls_cert, options.tls_key))
    if (certificate is None) != (key is None):
        raise UsageError("--tls-cert and --tls-key go together")
    try:
        web = Place.read(options.http, 8433) if options.http else None
        doors = Doors(Place.read(options.listen), web, certificate, key)
        asyncio.run(run(settings, doors, say))
    except Unservable as reason:
        raise UsageError(str(reason)) from None


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def _memory(text: str) -> int:
    number, unit = text[:-2], text[-2:].upper()
    if unit not in _BYTES or not (number.isascii() and number.isdecimal() and int(number)):
        raise UsageError(f"--memory is a size such as 6GB, not {text!r}")
    return int(number) * _BYTES[unit]


def add(options: Namespace) -> None:
    """Let somebody log in, with a password that is asked for or made."""
    path, users = _users(options)
    for name in options.name:
        if name in users.known:
            raise UsageError(
                f"there is a user {name}: dpquery user passwd for another password"
            )
        if not options.owner:
            require_analyst(load_policy(path), name)
    _write(users, options.name, options, owner=options.owner)


def passwd(options: Namespace) -> None:
    """Change a password."""
    _, users = _users(options)
    (name,) = options.name
    _require(users, name)
    _write(users, [name], options, owner=users.known[name].owner)


def remove(options: Namespace) -> None:
    """Let somebody log in no more; what they have spent stays spent."""
    _, users = _users(options)
    (name,) = options.name
    _require(users, name)
    users.without(name).write()
    show(f"{visible(name)} cannot log in any more")


def list_(options: Namespace) -> None:
    """List who may log in."""
    path, users = _users(options)
    analysts = analysts_of(load_policy(path))
    for name, user in users.known.items():
        lacking = "" if name in analysts else "  no analyst of the policy: asks nothing"
        show(f"{visible(name)}{'  owner' if user.owner else lacking}")
    if not users.known:
        show(f"nobody: dpquery user add {path.name} NAME")


def _users(options: Namespace) -> tuple[Path, Users]:
    path = Path(options.argument)
    load_policy(path)  # a name that is no policy's is told before a password is asked for
    return path, Users.beside(path)


def _require(users: Users, name: str) -> None:
    if name not in users.known:
        raise UsageError(f"there is no user {name}: dpquery user list names them")


def _write(users: Users, names: list[str], options: Namespace, *, owner: bool) -> None:
    """Write the users with passwords for these names."""
    made: list[str] = []
    for name in names:
        password = secrets.token_urlsafe(12) if options.generate else _asked(name)
        try:
            users = users.with_user(name, password, owner=owner)
        except ValueError as unfit:
            raise UsageError(str(unfit)) from None
        made.append(f"{visible(name)}  {password}" if options.generate else visible(name))
    users.write()
    for line in made:
        show(line)
    say(f"written to {users.path.name}")


def _asked(name: str) -> str:
    """Ask for a password twice, or read a line where nobody types."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip(os.linesep)
    first = getpass.getpass(f"password of {visible(name)}: ")
    if first != getpass.getpass("again: "):
        raise UsageError("these were two passwords: nothing was written")
    return first

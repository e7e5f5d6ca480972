"""Who may log in: a file beside the policy, for its owner's eyes, with no password in it."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from dpquery.errors import Diagnostic, PolicyInvalid, listed, nearest, shown
from dpquery.policy.model import Policy
from dpquery.server.scram import Verifier

LONGEST = 64
"""Characters of a name."""
SHORTEST_PASSWORD = 8


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who may log in."""

    verifier: Verifier
    owner: bool = False
    """Whether they see what all analysts spent, and give orders; they ask no data."""


@dataclass(frozen=True, slots=True)
class Users:
    """The users of a policy, by name: of an analyst, the name that the policy has for them."""

    path: Path
    known: Mapping[str, User] = field(default_factory=dict)
    secret: bytes = b""
    """Of which the salts of names are made that nobody has: a restart must not change them."""
    state: tuple[int, ...] = ()
    """Of the file, when it was read."""

    @classmethod
    def beside(cls, policy: Path) -> Users:
        """Read the users of a policy; there are none where there is no file.

        Raises:
            PolicyInvalid: DPQ615 the file is not one of users, or others can read it.
        """
        path = policy.with_suffix(".users")
        try:
            with path.open(encoding="utf-8") as file:
                found = os.fstat(file.fileno())
                text = file.read()
        except FileNotFoundError:
            return cls(path)
        except (OSError, UnicodeDecodeError):
            raise _unfit(path, "it cannot be read") from None
        if found.st_mode & 0o077:
            raise _unfit(path, "others can read it", f"chmod 600 {path.name}")
        try:
            read = json.loads(text)
            secret = b""
            if isinstance(read.get("secret"), str):  # older files are the users alone
                secret, read = bytes.fromhex(read["secret"]), read["users"]
            known = {name: _user(one) for name, one in read.items()}
        except (ValueError, AttributeError, KeyError, TypeError):
            raise _unfit(path, "it is no file of users") from None
        return cls(path, known, secret, _state(found))

    def outdated(self) -> bool:
        """Return whether the file is another one by now."""
        try:
            return _state(self.path.stat()) != self.state
        except OSError:
            return bool(self.state)

    def write(self) -> None:
        """Write the file, whole or not at all."""
        known = {
            name: {"verifier": str(user.verifier), "owner": user.owner}
            for name, user in sorted(self.known.items())
        }
        place, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
        try:
            with os.fdopen(place, "w", encoding="utf-8") as file:
                json.dump({"secret": self.secret.hex(), "users": known}, file, indent=1)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, self.path)
        except BaseException:
            os.unlink(name)
            raise

    def with_user(self, name: str, password: str, *, owner: bool) -> Users:
        """Return them with one more, or with another password.

        Raises:
            ValueError: the password is too short, or the name is none.
        """
        if not name or len(name) > LONGEST or not name.isprintable():
            raise ValueError(f"a name has 1 to {LONGEST} characters that print")
        if len(password) < SHORTEST_PASSWORD:
            raise ValueError(f"a password has at least {SHORTEST_PASSWORD} characters")
        user = User(Verifier.of(password), owner)
        secret = self.secret or secrets.token_bytes(32)
        return replace(self, known={**self.known, name: user}, secret=secret, state=())

    def without(self, name: str) -> Users:
        """Return them without one.

        Raises:
            KeyError: there is no such user.
        """
        known = dict(self.known)
        del known[name]
        return replace(self, known=known, state=())


def analysts_of(policy: Policy) -> list[str]:
    """Return who has a budget to ask from."""
    return [*policy.analysts] or ["default"]


def require_analyst(policy: Policy, name: str) -> None:
    """Require that a user has a budget: that the policy lists them, if it lists any.

    Raises:
        PolicyInvalid: DPQ608 it lists others.
    """
    known = analysts_of(policy)
    if name in known:
        return
    near = nearest(name, known)
    why = (
        "a login name is an analyst of the policy, and each spends from a budget of their own."
    )
    add = f"[analysts.{name}]" if name.isidentifier() else f'[analysts."{name}"]'
    remedy = (f"{add} with epsilon = 1 in the policy", f"analysts here: {listed(known, near)}")
    title = f"the policy lists no analyst {shown(name)}"
    raise PolicyInvalid(Diagnostic("DPQ608", title, why=(why,), remedy=remedy))


def _state(found: os.stat_result) -> tuple[int, ...]:
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode


def _user(stored: Mapping[str, object]) -> User:
    return User(Verifier.read(str(stored["verifier"])), stored["owner"] is True)


def _unfit(path: Path, title: str, remedy: str = "dpquery user list") -> PolicyInvalid:
    why = "verifiers of passwords are for the server alone: a lent one can be guessed from."
    found = Diagnostic("DPQ615", f"users: {title}", why=(why,), remedy=(remedy,))
    return PolicyInvalid(found, path.name)

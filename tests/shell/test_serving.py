"""`dpquery user` and the start of `dpquery serve`: what is written, said, and refused."""

from __future__ import annotations

import io
import re
import socket
import stat
import sys
from pathlib import Path

import pytest

from dpquery.server.users import Users
from dpquery.shell.main import main
from tests.samples import edit
from tests.server.places import served


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return served(tmp_path)


def typed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))


def test_users_are_added_changed_listed_and_removed(
    policy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    typed(monkeypatch, "correct horse\nbattery staple\n")
    assert main(["user", "add", str(policy), "alice", "bob"]) == 0
    users = Users.beside(policy)
    assert stat.S_IMODE(users.path.stat().st_mode) == 0o600
    assert users.known["alice"].verifier.takes("correct horse")
    assert users.known["bob"].verifier.takes("battery staple")
    typed(monkeypatch, "another horse\n")
    assert main(["user", "passwd", str(policy), "alice"]) == 0
    assert Users.beside(policy).known["alice"].verifier.takes("another horse")
    capsys.readouterr()
    assert main(["user", "list", str(policy)]) == 0
    assert capsys.readouterr().out == "alice\nbob\n"
    assert main(["user", "remove", str(policy), "bob"]) == 0
    assert [*Users.beside(policy).known] == ["alice"]


def test_passwords_are_made_where_that_is_asked_for(
    policy: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["user", "add", str(policy), "--owner", "carol", "--generate"]) == 0
    name, password = capsys.readouterr().out.split()
    user = Users.beside(policy).known[name]
    assert (name, user.owner) == ("carol", True)
    assert user.verifier.takes(password)
    assert re.fullmatch(r"[\w-]{16}", password)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["add", "carol"], "the policy lists no analyst 'carol'"),
        (["passwd", "alice"], "there is no user alice"),
        (["remove", "alice"], "there is no user alice"),
        (["add", "alice"], "a password has at least 8 characters"),
    ],
)
def test_what_cannot_be_done_writes_nothing(
    policy: Path,
    argv: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    typed(monkeypatch, "short\n")
    assert main(["user", argv[0], str(policy), *argv[1:]]) == 2
    assert said in capsys.readouterr().err
    assert not Users.beside(policy).path.exists()


PAIR = ["--tls-cert", "policy.toml", "--tls-key", "policy.toml"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--listen", "0.0.0.0:0"], "is open to other machines"),
        (["--listen", "localhost:none"], "a door is HOST:PORT"),
        (["--http", "0.0.0.0:1"], "is open to other machines"),
        (["--tls-cert", "a.crt"], "--tls-cert and --tls-key go together"),
        (["--tls-cert", "a.crt", "--tls-key", "a.key"], "a.crt cannot be read: no such file"),
        (
            ["--listen", "203.0.113.9:0", *PAIR],
            "policy.toml and policy.toml are no certificate",
        ),
        (["--memory", "lots"], "--memory is a size such as 6GB"),
    ],
)
def test_what_cannot_be_served_is_told_at_once(
    policy: Path,
    options: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(policy.parent)
    assert main(["serve", str(policy), *options]) == 2
    assert said in capsys.readouterr().err


def test_a_port_in_use_is_told_before_anything_is_started(
    policy: Path, capsys: pytest.CaptureFixture[str]
):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        for doors in (["--listen", place], ["--listen", "127.0.0.1:0", "--http", place]):
            assert main(["serve", str(policy), *doors]) == 2
            said = capsys.readouterr().err
            assert said.startswith(f"dpquery: another program listens at {place}: end it, or")
            assert said.count("\n") == 1


def test_help_lists_what_may_be_done_with_users(capsys: pytest.CaptureFixture[str]):
    assert main(["user", "--help"]) == 0
    assert "  dpquery user add POLICY NAME\n" in capsys.readouterr().out


def test_users_whom_the_policy_lists_no_more_are_marked(
    policy: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["user", "add", str(policy), "alice", "bob", "--generate"]) == 0
    edit(policy, "[analysts.bob]", "[analysts.robert]")
    capsys.readouterr()
    assert main(["user", "list", str(policy)]) == 0
    alice, bob = capsys.readouterr().out.splitlines()
    assert (alice, bob) == ("alice", "bob  no analyst of the policy: asks nothing")

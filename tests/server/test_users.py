"""Users and passwords: what is stored, who can read it, and that a login needs the password."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import stat
from pathlib import Path

import pytest

from dpquery.errors import PolicyInvalid
from dpquery.policy.load import load_policy
from dpquery.server.scram import Exchange, Verifier
from dpquery.server.service import Service, Settings
from dpquery.server.users import Users, require_analyst
from tests.server.places import served


def proof(password: str, told: str, first: str) -> str:
    """Answer the server's challenge as a client does (RFC 5802)."""
    nonce, salt, rounds = (part[2:] for part in told.split(","))
    salted = hashlib.pbkdf2_hmac(
        "sha256", password.encode(), base64.b64decode(salt), int(rounds)
    )
    key = hmac.digest(salted, b"Client Key", "sha256")
    bare = f"c=biws,r={nonce}"
    signed = f"{first},{told},{bare}".encode()
    signature = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
    mixed = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    return f"{bare},p={base64.b64encode(mixed).decode()}"


def test_a_login_proves_the_password_and_no_other():
    verifier = Verifier.read(str(Verifier.of("correct horse")))
    for password in ("correct horse", "correct hors", ""):
        exchange = Exchange(verifier)
        told = exchange.first("n,,n=,r=abc")
        answer = exchange.final(proof(password, told, "n=,r=abc"))
        assert (answer is not None) == (password == "correct horse")
        assert verifier.takes(password) == (password == "correct horse")


def test_the_example_of_the_rfc():
    """RFC 7677, section 3, up to the nonce, which the server draws."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    verifier = Verifier.of("pencil", salt)
    signed = (
        "n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        "s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,"
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    said = hmac.digest(verifier.server_key, signed.encode(), "sha256")
    assert base64.b64encode(said) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_an_answer_of_another_login_is_worth_nothing():
    verifier = Verifier.of("correct horse")
    first, second = Exchange(verifier), Exchange(verifier)
    told = first.first("n,,n=,r=abc")
    second.first("n,,n=,r=abc")
    heard = proof("correct horse", told, "n=,r=abc")
    assert second.final(heard) is None
    assert first.final(heard) is not None


@pytest.mark.parametrize("said", ["", "n", "n,,", "p=tls-unique,,n=,r=a"])
def test_what_is_no_first_message_is_no_login(said: str):
    exchange = Exchange(Verifier.of("correct horse"))
    with pytest.raises(ValueError, match=r"SCRAM|binding|unpack"):
        exchange.first(said)


@pytest.mark.parametrize("said", ["", "c=biws", "c=biws,r=x,p=####", "c=biws,r=x,p=aaaa"])
def test_what_is_no_proof_is_no_login(said: str):
    exchange = Exchange(Verifier.of("correct horse"))
    exchange.first("n,,n=,r=abc")
    with pytest.raises(ValueError):  # noqa: PT011 - of several kinds
        exchange.final(said)


def test_users_are_kept_for_the_owner_alone_and_without_passwords(tmp_path: Path):
    policy = served(tmp_path)
    users = Users.beside(policy)
    assert not users.known
    users.with_user("alice", "correct horse", owner=False).write()
    again = Users.beside(policy)
    assert stat.S_IMODE(again.path.stat().st_mode) == 0o600
    assert "correct" not in again.path.read_text("utf-8")
    assert again.known["alice"].verifier.takes("correct horse")
    assert not again.outdated()
    assert users.outdated()
    again.without("alice").write()
    assert not Users.beside(policy).known
    assert Users.beside(policy).secret == again.secret


def test_names_that_nobody_has_keep_their_salt(tmp_path: Path):
    policy = served(tmp_path)
    Users.beside(policy).with_user("alice", "correct horse", owner=False).write()
    first, again = (Service(Settings(policy), lambda _: None) for _ in "12")
    assert first.verifier("bob").salt == again.verifier("bob").salt
    assert first.verifier("bob").salt != first.verifier("carol").salt
    users = Users.beside(policy)
    users.with_user("bob", "correct horse", owner=False).without("bob").write()
    assert first.verifier("bob").salt == again.verifier("bob").salt


def test_a_file_without_a_secret_is_read_and_gets_one(tmp_path: Path):
    policy = served(tmp_path)
    users = Users.beside(policy).with_user("secret", "correct horse", owner=True)
    users.write()
    users.path.write_text(json.dumps(json.loads(users.path.read_text("utf-8"))["users"]))
    old = Users.beside(policy)
    assert (old.secret, old.known) == (b"", users.known)
    old.with_user("bob", "correct horse", owner=False).write()
    assert len(Users.beside(policy).secret) == 32


def test_a_file_that_others_may_read_by_now_is_noticed_and_told_of_once(tmp_path: Path):
    policy = served(tmp_path)
    Users.beside(policy).with_user("alice", "correct horse", owner=False).write()
    log: list[str] = []
    service = Service(Settings(policy), log.append)
    for mode, told in ((0o644, 1), (0o600, 1), (0o640, 2)):
        service.users.path.chmod(mode)
        for _ in range(3):
            assert "alice" in service.users.known
        assert len(log) == told
    assert "others can read it" in log[0]


def test_guesses_are_bounded_by_name_and_by_place(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("dpquery.server.service.PAUSE", 0.0)
    monkeypatch.setattr("dpquery.server.service.MOST_COUNTED", 150)
    policy = served(tmp_path)
    Users.beside(policy).with_user("alice", "a long password", owner=False).write()
    service = Service(Settings(policy), lambda _: None)

    def wrong(name: str, place: str, times: int = 1) -> None:
        for _ in range(times):
            asyncio.run(service.refused(name, place))

    wrong("alice", "192.0.2.1", 9)
    assert service.require_unlocked("alice", "192.0.2.1")
    wrong("alice", "192.0.2.1")
    assert not service.require_unlocked("alice", "192.0.2.1")
    assert service.require_unlocked("alice", "192.0.2.2")
    for number in range(90):  # other names neither unlock it nor go on for ever
        assert service.require_unlocked("bob", "192.0.2.1")
        wrong(str(number), "192.0.2.1")
    assert not service.require_unlocked("alice", "192.0.2.1")
    assert not service.require_unlocked("bob", "192.0.2.1")
    assert service.require_unlocked("bob", "192.0.2.2")
    assert service.admitted("alice", "192.0.2.1", "test")  # her connections stay
    assert service.require_unlocked("alice", "192.0.2.1"), (
        "others guess there, and she is known"
    )
    for number in range(100):
        wrong(str(number), f"2001:db8::{number:x}")
    assert not service.require_unlocked("bob", "2001:db8::ffff")
    assert service.require_unlocked("bob", "2001:db8:1::")
    assert len(service._wrong) == 150


def test_wrong_passwords_of_long_ago_do_not_count(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("dpquery.server.service.PAUSE", 0.0)
    service = Service(Settings(served(tmp_path)), lambda _: None)
    for _ in range(3):
        for _ in range(9):
            asyncio.run(service.refused("alice", "192.0.2.1"))
        for wrong in service._wrong.values():
            wrong.last -= 601
    assert service.require_unlocked("alice", "192.0.2.1")


def test_a_file_that_others_can_read_or_is_none_is_refused(tmp_path: Path):
    policy = served(tmp_path)
    users = Users.beside(policy).with_user("alice", "correct horse", owner=False)
    users.write()
    users.path.chmod(0o640)
    with pytest.raises(PolicyInvalid, match="others can read it") as refused:
        Users.beside(policy)
    assert "chmod 600 policy.users" in str(refused.value)
    users.path.chmod(0o600)
    for text in (
        "",
        "[]",
        '{"alice": {}}',
        '{"alice": {"verifier": "x", "owner": false}}',
        '{"secret": "x"}',
    ):
        users.path.write_text(text)
        with pytest.raises(PolicyInvalid, match="no file of users"):
            Users.beside(policy)


def test_who_has_no_budget_is_no_user(tmp_path: Path):
    policy = load_policy(served(tmp_path))
    require_analyst(policy, "alice")
    with pytest.raises(PolicyInvalid, match="the policy lists no analyst 'alise'") as refused:
        require_analyst(policy, "alise")
    assert "[analysts.alise]" in str(refused.value)


@pytest.mark.parametrize(
    ("name", "password"), [("", "long enough"), ("a\n", "long enough"), ("alice", "short")]
)
def test_names_print_and_passwords_are_long(tmp_path: Path, name: str, password: str):
    with pytest.raises(ValueError, match=r"has .* characters"):
        Users.beside(served(tmp_path)).with_user(name, password, owner=False)

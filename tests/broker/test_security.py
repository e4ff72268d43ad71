"""Logins and rights."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from argon2 import Parameters, extract_parameters

from jdbcstore.broker.security import (
    REMEMBERED,
    AllowAll,
    Principal,
    Security,
    UsersFile,
    hash_password,
    make_security,
)
from jdbcstore.config.users import EVERYTHING, read_users, write_user
from jdbcstore.errors import ConfigurationError, NotAuthorized
from jdbcstore.message.destination import Destination
from jdbcstore.testing.clock import FakeClock

SECRET = "two pints, please"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "users.toml"
    write_user(path, "alice", hash_password(SECRET), ["queue://ORDERS.>", "PRICES", "topic://>"], ["*.IN"])
    return path


@pytest.fixture
def users(file: Path) -> Iterator[UsersFile]:
    users = UsersFile(file)
    yield users
    users.close()


def login(security: Security, name: str | None, password: str | None) -> Principal:
    return asyncio.run(security.login(name, password))


def test_a_login(users: UsersFile) -> None:
    assert login(users, "alice", SECRET).name == "alice"


@pytest.mark.parametrize(
    ("name", "password"),
    [("alice", "wrong"), ("alice", ""), ("alice", None), ("bob", SECRET), ("", ""), (None, None)],
)
def test_a_wrong_login_says_nothing_of_what_is_wrong(
    users: UsersFile, name: str | None, password: str | None
) -> None:
    with pytest.raises(NotAuthorized, match=r"^the user name or the password is wrong$"):
        login(users, name, password)


def test_a_hash_that_is_none(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_user(file, "alice", SECRET)
    users = UsersFile(file)
    with pytest.raises(NotAuthorized):
        login(users, "alice", SECRET)
    users.close()

    assert "alice" in caplog.text
    assert SECRET not in caplog.text


def test_the_loop_turns_while_passwords_are_verified(users: UsersFile) -> None:
    async def main() -> int:
        logins = [asyncio.create_task(users.login("alice", SECRET)) for _ in range(10)]
        turns = 0
        while not all(one.done() for one in logins):
            await asyncio.sleep(0)
            turns += 1
        await asyncio.gather(*logins)
        return turns

    # If one were verified on the loop, it would not turn meanwhile.
    assert asyncio.run(main()) > 50


def test_rights(users: UsersFile) -> None:
    alice = login(users, "alice", SECRET)

    def reads(text: str) -> bool:
        return alice.may_read(Destination.parse(text))

    def writes(text: str) -> bool:
        return alice.may_write(Destination.parse(text))

    assert all(map(reads, ["ORDERS", "ORDERS.NEW", "ORDERS.>", "ORDERS.*.>", "PRICES", "topic://>"]))
    assert not any(map(reads, ["INVOICES", ">", "*", "*.>", "PRICES.>", "PRICES.X", "topic.X"]))
    assert all(map(writes, ["A.IN", "*.IN"]))
    assert not any(map(writes, ["A.B.IN", "A.*", "A.>", ">", "topic://A.IN", "ORDERS"]))
    assert reads("ORDERS,topic://X")
    assert not reads("ORDERS,INVOICES")
    assert reads("temp-queue://ID:x:1")
    assert writes("temp-topic://ID:x:1")


def test_all_rights(file: Path) -> None:
    write_user(file, "root", hash_password(SECRET))
    assert tuple(map(str, read_users(file)["root"].read)) == EVERYTHING
    users = UsersFile(file)
    root = login(users, "root", SECRET)
    users.close()

    assert all(root.may_read(Destination.parse(one)) for one in (">", "topic://>", "A.B", "A.>", "*"))


def test_no_rights_without_any(file: Path) -> None:
    file.write_text(f'[users.bob]\npassword = "{hash_password(SECRET)}"\n')
    users = UsersFile(file)
    bob = login(users, "bob", SECRET)
    users.close()

    assert not bob.may_read(Destination.parse("ORDERS"))
    assert not bob.may_write(Destination.parse("ORDERS"))


def test_a_changed_file_counts_at_once(
    users: UsersFile, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_user(file, "bob", hash_password(SECRET))
    assert login(users, "bob", SECRET).name == "bob"

    file.write_text("this is not TOML")
    assert login(users, "bob", SECRET).name == "bob"
    assert "the previous users stay in effect" in caplog.text


def test_without_a_file_everybody_may_do_everything() -> None:
    door = make_security(None)

    assert isinstance(door, AllowAll)
    anyone = login(door, None, None)
    assert anyone.may_read(Destination.parse(">"))
    assert anyone.may_write(Destination.parse("A"))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x = 1", r"has only sections \[users\.NAME\]"),
        ("[users.bob]\nread = []", r"\[users\.bob\]: a user needs a password"),
        ('[users.bob]\npassword = "x"\nraed = []', "unknown option raed"),
        ('[users.bob]\npassword = "x"\nread = "A"', "must be a list of strings"),
        ('[users.bob]\npassword = "x"\nread = [""]', "needs a name"),
        ("[", "this is not TOML"),
    ],
)
def test_a_wrong_file(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "users.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=complaint):
        UsersFile(path)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="jdbcstore passwd"):
        make_security(str(tmp_path / "users.toml"))


def test_writing_keeps_the_rest(file: Path) -> None:
    file.write_text(f"# ours\n{file.read_text()}")
    file.chmod(0o640)

    assert write_user(file, "alice", hash_password("other")) is False
    assert write_user(file, "o'neil.x", hash_password("other"), write=[]) is True

    assert file.read_text().startswith("# ours\n")
    found = read_users(file)
    assert [*map(str, found["alice"].write)] == ["queue://*.IN"]
    assert (found["o'neil.x"].write, len(found["o'neil.x"].read)) == ((), 2)
    assert file.stat().st_mode & 0o777 == 0o640
    assert SECRET not in repr(found) + file.read_text()
    assert "argon2" not in repr(found)


def test_a_new_file_is_its_owner_s(file: Path) -> None:
    assert file.stat().st_mode & 0o777 == 0o600


class Counted:
    """A hasher that counts what it verifies, and can be told to wait."""

    def __init__(self, users: UsersFile) -> None:
        self._hasher = users._hasher
        users._hasher = self  # type: ignore[assignment]
        self.passwords: list[str] = []
        self.costs: list[Parameters] = []
        self.go_on = threading.Event()
        self.go_on.set()

    def verify(self, known: str, password: str) -> bool:
        self.passwords.append(password)
        self.costs.append(extract_parameters(known))
        assert self.go_on.wait(180)
        return self._hasher.verify(known, password)


def test_a_login_of_nobody_takes_as_long(users: UsersFile) -> None:
    """A password of the same cost is verified."""
    counted = Counted(users)
    for name in ("alice", "nobody"):
        with pytest.raises(NotAuthorized):
            login(users, name, "wrong")
    assert counted.passwords == ["wrong", "wrong"]
    assert counted.costs[0] == counted.costs[1]


def test_a_login_that_was_right_is_remembered_for_a_while(file: Path) -> None:
    clock = FakeClock()
    users = UsersFile(file, clock=clock)
    counted = Counted(users)
    try:
        for _ in range(5):
            assert login(users, "alice", SECRET).name == "alice"
        assert counted.passwords == [SECRET]
        for _ in range(2):
            with pytest.raises(NotAuthorized):
                login(users, "alice", "wrong")
        assert counted.passwords == [SECRET, "wrong", "wrong"]
        login(users, "alice", SECRET)
        clock.advance(REMEMBERED)
        login(users, "alice", SECRET)
        assert counted.passwords == [SECRET, "wrong", "wrong", SECRET]
        remembered = repr(vars(users._remembered))
        assert SECRET not in remembered
        assert hashlib.sha256(SECRET.encode()).digest() not in users._remembered._logins["alice"]
    finally:
        users.close()


def test_what_was_remembered_is_forgotten_with_the_password(users: UsersFile, file: Path) -> None:
    assert login(users, "alice", SECRET).name == "alice"
    write_user(file, "alice", hash_password("another"), ["A"])
    with pytest.raises(NotAuthorized):
        login(users, "alice", SECRET)
    assert login(users, "alice", "another").may_read(Destination.parse("A"))


def test_logins_of_clients_that_have_given_up_are_not_verified(users: UsersFile) -> None:
    counted = Counted(users)
    counted.go_on.clear()

    async def main() -> None:
        waiting = [asyncio.create_task(users.login("alice", f"wrong {n}")) for n in range(20)]
        while len(counted.passwords) < 2:
            await asyncio.sleep(0.001)
        for one in waiting:
            one.cancel()
        last = [asyncio.create_task(users.login("alice", SECRET)) for _ in range(20)]
        counted.go_on.set()
        assert [user.name for user in await asyncio.gather(*last)] == ["alice"] * 20
        await asyncio.wait(waiting)

    asyncio.run(main())
    # Two had begun; of those who came then, two are verified at a time, and the others are known.
    assert {*counted.passwords[:2]} == {"wrong 0", "wrong 1"}
    assert 1 <= len(counted.passwords[2:]) <= 2


def test_who_is_known_does_not_wait_for_those_who_are_not(users: UsersFile) -> None:
    counted = Counted(users)

    async def main() -> None:
        await users.login("alice", SECRET)
        counted.go_on.clear()
        wrong = [asyncio.create_task(users.login("alice", f"wrong {n}")) for n in range(20)]
        while len(counted.passwords) < 3:
            await asyncio.sleep(0.001)
        async with asyncio.timeout(180):
            assert (await users.login("alice", SECRET)).name == "alice"
        counted.go_on.set()
        assert {type(one) for one in await asyncio.gather(*wrong, return_exceptions=True)} == {NotAuthorized}

    asyncio.run(main())

"""``passwd``: the users file of a broker."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest

from jdbcstore.broker.security import UsersFile
from tests.support.cli.command_line import CommandLine

SECRET = b"two pints\n"


def test_a_user_is_added_and_changed(local: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "users.toml"

    added = local("passwd", "users.toml", "alice", "--read", "ORDERS.>", "--json", stdin=SECRET)
    changed = local("passwd", "users.toml", "alice", "--write", "REPLIES", stdin=b"other")

    assert added.json == {"file": "users.toml", "user": "alice", "new": True}
    assert "changed alice in users.toml" in changed.out
    text = file.read_text()
    assert 'read = ["ORDERS.>"]' in text
    assert 'write = ["REPLIES"]' in text
    assert "two pints" not in text
    users = UsersFile(file)
    assert asyncio.run(users.login("alice", "other")).name == "alice"
    users.close()


def test_a_service_that_reads_the_file_still_does_after_a_change(local: CommandLine, tmp_path: Path) -> None:
    """As deploy/index.md has it: a folder whose group new files get, and a mode that is set once."""
    if os.getuid() != 0:
        pytest.skip("only root may give a folder to another group")
    folder = tmp_path / "etc"
    folder.mkdir()
    os.chown(folder, 0, 12345)
    folder.chmod(0o2750)
    file = folder / "users.toml"
    local("passwd", str(file), "alice", stdin=SECRET)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o640)
    local("passwd", str(file), "bob", stdin=SECRET)
    assert (file.stat().st_gid, stat.S_IMODE(file.stat().st_mode)) == (12345, 0o640)


def test_what_is_refused(local: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "wrong.toml").write_text("x = 1")

    empty = local.run("passwd", "users.toml", "alice", stdin=b"\n")
    wrong = local.run("passwd", "wrong.toml", "alice", stdin=SECRET)
    nowhere = local.run("passwd", "nowhere/users.toml", "alice", stdin=SECRET)

    assert (empty.code, wrong.code, nowhere.code) == (2, 3, 3)
    assert "the password is empty" in empty.err
    assert "[users.NAME]" in wrong.err
    assert "cannot write" in nowhere.err
    assert not (tmp_path / "users.toml").exists()

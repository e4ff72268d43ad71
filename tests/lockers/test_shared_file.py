"""A lock on a file: of one process, of two, and when the file is changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from jdbcstore.errors import NotMaster, StoreClosed
from jdbcstore.lockers import LockState
from jdbcstore.lockers.shared_file import SharedFileLocker

HOLDER = """
import sys
from jdbcstore.lockers.shared_file import SharedFileLocker
locker = SharedFileLocker(directory=sys.argv[1])
locker.start()
print("held", flush=True)
sys.stdin.readline()
"""


def locker(directory: Path, **options: object) -> SharedFileLocker:
    return SharedFileLocker(directory=str(directory), lock_acquire_sleep_interval=0.05, **options)


def test_one_process_locks_it_once(tmp_path: Path) -> None:
    one, other = locker(tmp_path), locker(tmp_path)
    assert one.start()
    with pytest.raises(NotMaster):
        other.start(0.0)
    # Nor has looking at it cost the first its lock.
    again = subprocess.run(
        [sys.executable, "-c", HOLDER.replace("start()", "start(0.0)"), str(tmp_path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "NotMaster" in again.stderr
    assert one.keep_alive()
    one.stop()
    assert other.start(0.0)
    other.stop()


def test_another_process_holds_it_until_it_ends(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    ours = locker(tmp_path)
    assert not ours.start(blocking=False)
    assert not ours.wait(0.2)
    assert ours.state is LockState.SLAVE
    holder.kill()
    holder.communicate()
    assert ours.wait(180.0)
    assert ours.keep_alive()
    ours.stop()


@pytest.mark.parametrize("change", ["removed", "replaced", "written"])
def test_a_file_that_was_changed_is_not_ours(tmp_path: Path, change: str) -> None:
    ours = locker(tmp_path)
    ours.start()
    file = tmp_path / "lock"
    if change == "written":
        later = time.time_ns() + 10**9
        os.utime(file, ns=(later, later))
    else:
        file.unlink()
        if change == "replaced":
            file.write_bytes(b"")
    assert not ours.keep_alive()
    assert ("is its disk mounted?" in ours.lost) == (change != "written")
    ours.stop()


def test_to_read_the_file_does_not_release_it(tmp_path: Path) -> None:
    """A lock of the process would be lost with the first descriptor of the file that is closed."""
    ours = locker(tmp_path)
    ours.start()

    shutil.copytree(tmp_path, tmp_path.with_name("copy"))
    (tmp_path / "lock").read_bytes()

    other = subprocess.run(
        [sys.executable, "-c", HOLDER.replace("start()", "start(0.0)"), str(tmp_path)],
        capture_output=True,
        text=True,
    )
    assert "NotMaster" in other.stderr
    ours.stop()


def test_fail_if_locked(tmp_path: Path) -> None:
    ours = locker(tmp_path)
    ours.start()
    with pytest.raises(NotMaster):
        locker(tmp_path, fail_if_locked=True).start()
    ours.stop()


def test_stopping_ends_the_wait(tmp_path: Path) -> None:
    ours, waiting = locker(tmp_path), locker(tmp_path)
    ours.start()
    waiting.start(blocking=False)
    stopper = threading.Thread(target=waiting.stop)
    stopper.start()
    with pytest.raises(StoreClosed):
        waiting.wait(180.0)
    stopper.join()
    assert waiting.state is LockState.STOPPED
    ours.stop()


def test_the_file_holds_the_time_as_activemq_writes_it(tmp_path: Path) -> None:
    ours = locker(tmp_path)
    before = time.time_ns() // 10**6
    ours.start()
    written = int.from_bytes((tmp_path / "lock").read_bytes()[:8], "big")
    assert before <= written <= time.time_ns() // 10**6
    ours.stop()


def test_who_has_it(tmp_path: Path) -> None:
    ours, other = locker(tmp_path), locker(tmp_path)
    assert ours.holder is None
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    assert ours.holder == f"process {holder.pid}"
    with pytest.raises(NotMaster, match=f"process {holder.pid} holds the lock"):
        ours.start(0.0)
    holder.communicate(b"\n")
    assert ours.holder is None

    assert ours.start(0.0)
    assert other.holder == "this process"
    assert ours.keep_alive()
    with pytest.raises(NotMaster):
        other.start(0.0)
    ours.stop()

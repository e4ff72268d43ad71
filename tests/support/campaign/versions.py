"""The version of the product before this one, unpacked beside it, and processes of either."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

from tests.support import ROOT
from tests.support.campaign.processes import Nurse, Running

UNPACKED = ROOT / ".build" / "campaign"
_AGE = 24 * 3600
"""Without a tag, the version before is the last commit that is so many seconds older."""


class Versions:
    """Processes of one of several versions of the product, in one network and with one clock.

    :param previous: the folder of another version, if there is one beside this
    """

    def __init__(
        self,
        previous: Path | None,
        *preloaded: str,
        prefix: tuple[str, ...] = (),
        environment: dict[str, str] | None = None,
    ) -> None:
        self._trees = [ROOT, *([previous] if previous else [])]
        self._nurses = [
            Nurse(*preloaded, tree=tree, prefix=prefix, environment=environment) for tree in self._trees
        ]
        self.current = 0
        """The version that is started: 0 is this one."""

    def __len__(self) -> int:
        return len(self._trees)

    @property
    def name(self) -> str:
        """The commit of the version that is started, or ``this version``."""
        return self._trees[self.current].name if self.current else "this version"

    def start(self, log: Path, module: str, *arguments: str) -> Running:
        """As :meth:`Nurse.start`, in the version of now."""
        return self._nurses[self.current].start(log, module, *arguments)

    def turn(self, process: Running, chance: random.Random) -> str:
        """End or kill a process, and use the other version from the next start on; return what was done."""
        self.current = (self.current + 1) % len(self)
        if chance.random() < 0.5:
            process.kill()
            return "killed"
        return "ended" if process.end() else "did not end"

    def close(self) -> None:
        """End all processes of each version."""
        for nurse in self._nurses:
            nurse.close()


def chosen_commit(commit: str = "", *, since: str = "") -> str:
    """Return a commit: by default the last tag, or one of a day before; empty without a history.

    Instead of one that is older than the commit ``since``, that is returned.
    """
    if shutil.which("git") is None:
        return ""
    commit = commit or _git("describe", "--tags", "--abbrev=0") or _day_before()
    if since and not _git("rev-list", "-1", f"{since}..{commit}"):
        commit = since
    return commit and _git("rev-parse", "--short=12", f"{commit}^{{commit}}")


def previous_version(commit: str = "", *, since: str = "") -> Path | None:
    """Return the folder of a version that :func:`chosen_commit` chooses; None without one."""
    commit = chosen_commit(commit, since=since)
    if not commit:
        return None
    folder = UNPACKED / commit
    if not folder.exists():
        unpacked = folder.with_suffix(".new")
        shutil.rmtree(unpacked, ignore_errors=True)
        unpacked.mkdir(parents=True)
        archive = subprocess.run(
            ["git", "-C", str(ROOT), "archive", commit, "jdbcstore", "migrations"],
            capture_output=True,
            check=True,
        )
        subprocess.run(["tar", "-x", "-C", str(unpacked)], input=archive.stdout, check=True)
        unpacked.rename(folder)
    return folder


def _day_before() -> str:
    now = _git("show", "-s", "--format=%ct", "HEAD")
    return _git("rev-list", "-1", f"--before={int(now) - _AGE}", "HEAD") if now else ""


def _git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""

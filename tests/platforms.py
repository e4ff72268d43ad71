"""The project on other systems, each in a bare tree: ``python -m tests.platforms [NAME...]``.

debootstrap makes the tree in ``.build/platforms``, with the packages that a clone and ``make`` need. The last
commit is cloned into it, and ``make`` runs there under chroot, with its own mounts and processes. This needs
root, and the network. What a run prints goes to ``.build/platforms/NAME-TARGET.log``; its result replaces its
row in tests/tested.md. A system that cannot be had here is named, and its rows are left as they are.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tests.support import ROOT

PAGE = ROOT / "tests" / "tested.md"
BUILD = ROOT / ".build" / "platforms"
BEGIN, END = "<!-- python -m tests.platforms -->", "<!-- end of platforms -->"
TARGETS = ("demo", "quick")
PACKAGES = ("ca-certificates", "gcc", "git", "make", "python3-dev", "python3-venv")
CERTIFICATES = Path("/usr/local/share/ca-certificates")
"""Those of this machine's own, with which it reaches the network."""
_MOUNTED = """
mount --make-rprivate /
for folder in dev sys; do mount --rbind /$folder "$1/$folder"; done
mount -t proc proc "$1/proc"
exec chroot "$1" sh -euc "$2"
"""
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Platform:
    """A release of Debian or Ubuntu."""

    name: str
    what: str
    suite: str
    archive: str = "debian"
    """The last part of a mirror's address."""
    components: str = "main"
    release: str = "/etc/debian_version"

    @property
    def keyring(self) -> Path:
        return Path(f"/usr/share/keyrings/{self.archive}-archive-keyring.gpg")


PLATFORMS = (
    Platform("debian-12", "Debian 12", "bookworm"),
    Platform("debian-13", "Debian 13", "trixie"),
    Platform("ubuntu-24.04", "Ubuntu 24.04", "noble", "ubuntu", "main,universe", "/etc/issue.net"),
)


class NotHere(Exception):
    """This system cannot be had on this machine."""


def run(platform: Platform, target: str, mirror: str | None = None) -> str:
    """Run a target in a new clone; returns its line of the page.

    :raises NotHere: the tree cannot be made
    """
    tree = _tree(platform, mirror)
    clone = tree / "srv" / "jdbcstore"
    if not clone.exists():
        _checked("git", "clone", "--quiet", "--no-local", str(ROOT), str(clone))
    else:
        _checked("git", "-C", str(clone), "fetch", "--quiet", str(ROOT), "HEAD")
        _checked("git", "-C", str(clone), "reset", "--quiet", "--hard", "FETCH_HEAD")
    log = BUILD / f"{platform.name}-{target}.log"
    with log.open("wb") as output:
        code = _inside(tree, f"cd /srv/jdbcstore; exec make {target} </dev/null", output).returncode
    result = _result(log.read_text(errors="replace"), code)
    cells = (platform.what, f"`make {target}`", _versions(tree, platform), result)
    return f"| {' | '.join(cells)} | `python -m tests.platforms {platform.name} --target {target}` |"


def _result(text: str, code: int) -> str:
    """Return the counts of each run of pytest in a log, or how make ended."""
    runs = re.findall(r"^=+ (.*) in [\d.]+s\b", _COLOURS.sub("", text), re.MULTILINE)
    counted = [", ".join(re.findall(r"\d+ (?:passed|failed|errors?|skipped)", run)) for run in runs]
    if code != 0 and not any(word in run for run in counted for word in ("failed", "error")):
        counted.append(f"exit code {code}")
    return "; ".join(counted) or "done"


def _mirror(archive: str) -> str:
    """Return the mirror that this machine's apt uses, as .ci/mysql does."""
    wanted = ("--format", "$(REPO_URI)", "Created-By: Packages", "Component: main")
    done = subprocess.run(["apt-get", "indextargets", *wanted], capture_output=True, text=True)
    for mirror in done.stdout.splitlines():
        if mirror.endswith(f"/{archive}/"):
            return mirror
    raise NotHere(f"apt has no mirror of {archive} among its sources; name one with --mirror")


def _tree(platform: Platform, mirror: str | None) -> Path:
    tree = BUILD / platform.name
    if (tree / "etc" / "debian_version").exists() and not (tree / "debootstrap").exists():
        return tree
    program = shutil.which("debootstrap", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
    if program is None:
        raise NotHere("debootstrap is not installed; on Debian: apt-get install debootstrap")
    if os.geteuid() != 0:
        raise NotHere("only root may make a tree and change into it")
    if not platform.keyring.exists():
        raise NotHere(f"{platform.keyring} is not there: it is in debian-archive-keyring or ubuntu-keyring")
    mirror = mirror or _mirror(platform.archive)
    tree.mkdir(parents=True, exist_ok=True)
    options = [
        "--variant=minbase",
        f"--include={','.join(PACKAGES)}",
        f"--components={platform.components}",
        f"--keyring={platform.keyring}",
    ]
    scripts = Path("/usr/share/debootstrap/scripts")
    # That of a release which is newer than this debootstrap is the one of all others.
    script = [] if (scripts / platform.suite).exists() else [str(scripts / "gutsy")]
    _checked(program, *options, platform.suite, str(tree), mirror, *script)
    return tree


def _inside(
    tree: Path, script: str, output: BinaryIO | int = subprocess.PIPE
) -> subprocess.CompletedProcess[str]:
    """Run a script in a tree, as its root; all that it prints goes to ``output``."""
    for name in ("hosts", "resolv.conf"):  # without the first, Java does not find its own host
        shutil.copy(f"/etc/{name}", tree / "etc" / name)
    asked = ["apt-config", "dump", "Acquire::Check-Valid-Until"]  # a mirror may be older than its lists allow
    (tree / "etc" / "apt" / "apt.conf.d" / "99machine").write_bytes(subprocess.check_output(asked))
    if CERTIFICATES.is_dir():
        shutil.copytree(CERTIFICATES, tree / CERTIFICATES.relative_to("/"), dirs_exist_ok=True)
    return subprocess.run(
        [
            *(
                "unshare",
                "--mount",
                "--pid",
                "--fork",
                "--kill-child",
                "sh",
                "-euc",
                _MOUNTED,
                "sh",
                str(tree),
            ),
            f"update-ca-certificates >/dev/null 2>&1; {script}",
        ],
        env={
            "DEBIAN_FRONTEND": "noninteractive",
            "HOME": "/root",
            "LANG": "C.UTF-8",
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "PIP_CERT": "/etc/ssl/certs/ca-certificates.crt",
        },
        stdout=output,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )


def _versions(tree: Path, platform: Platform) -> str:
    """Return the versions of the system and of what it has, as they say themselves."""
    asked = _inside(tree, f"cat {platform.release}; python3 --version; java --version 2>&1 || true")
    system, python, *java = asked.stdout.splitlines()
    version = re.search(r"\d+(\.\d+)*", java[0]) if java else None
    return ", ".join([system, python, *([f"Java {version.group()}"] if version else [])])


def _checked(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotHere(f"{command[0]} failed: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")


def write(line: str) -> None:
    """Put a line into the page's table, in place of the line of the same run."""
    before, begin, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    table, end, after = rest.partition(END)
    head, lines = table.strip().splitlines()[:2], table.strip().splitlines()[2:]
    by_run = {_run_of(row): row for row in [*lines, line]}
    rows = "\n".join([*head, *(by_run[name] for name in sorted(by_run))])
    PAGE.write_text(f"{before}{begin}\n{rows}\n{end}{after}", encoding="utf-8")


def _run_of(line: str) -> str:
    return line.rpartition("tests.platforms ")[2]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Run the project on other systems, each in a bare tree.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="one of: " + ", ".join(p.name for p in PLATFORMS)
    )
    parser.add_argument("--target", action="append", help="of make; by default demo and quick")
    parser.add_argument("--mirror", help="of the named system; by default that of this machine's apt")
    options = parser.parse_args(arguments)
    unknown = {*options.names} - {platform.name for platform in PLATFORMS}
    if unknown:
        parser.error(f"no such system: {', '.join(sorted(unknown))}")
    failed = False
    for platform in PLATFORMS:
        if options.names and platform.name not in options.names:
            continue
        for target in options.target or TARGETS:
            try:
                line = run(platform, target, options.mirror)
            except NotHere as error:
                print(f"{platform.name}: not run: {error}")  # noqa: T201
                break
            print(line, flush=True)  # noqa: T201
            write(line)
            failed = failed or any(word in line for word in ("failed", "error", "exit code"))
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The files in ``.github``, and hooks: they parse, and what they run, name and ask for exists here."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from jdbcstore.cli.doctor import doctor
from tests.support import ROOT

GITHUB = ROOT / ".github"
FILES = sorted(GITHUB.rglob("*.yml"))
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text()
LINT = MAKEFILE.partition("\nlint:")[2].partition("\n\n")[0]
TARGETS = set(re.findall(r"^([a-z][\w-]*):", MAKEFILE, re.MULTILINE))
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def read(path: Path) -> dict[Any, Any]:
    loaded = yaml.safe_load(path.read_text())
    assert isinstance(loaded, dict)
    return loaded


def jobs(path: Path) -> dict[str, dict[str, Any]]:
    found = read(path)["jobs"]
    assert isinstance(found, dict)
    return found


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in jobs(path).values() for step in job.get("steps", ())]


def commands(path: Path) -> list[list[str]]:
    lines = [line for step in steps(path) for line in step.get("run", "").splitlines()]
    return [shlex.split(command) for line in lines for command in line.split("&&")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_it_parses(path: Path) -> None:
    assert read(path)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_what_a_workflow_runs_exists(path: Path) -> None:
    assert jobs(path)
    for command in commands(path):
        if command[0] == "make":
            assert {word for word in command[1:] if "=" not in word} <= TARGETS, command
        elif "/" in command[0] and not command[0].startswith("installed/"):
            assert (ROOT / command[0]).stat().st_mode & 0o111, command
    for name, job in jobs(path).items():
        needs = job.get("needs", [])
        assert {*([needs] if isinstance(needs, str) else needs)} <= {*jobs(path)}, name
        # Without steps it is another workflow, of this repository.
        assert "steps" in job or read(ROOT / job["uses"])[True].keys() >= {"workflow_call"}, name


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_an_action_of_others_is_named_by_its_commit_and_version(path: Path) -> None:
    used = re.findall(r"uses: (?!\./)(.*)", path.read_text())
    assert used
    for action in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", action), action


def test_the_site_is_built_and_opened_for_every_change() -> None:
    workflow = read(GITHUB / "workflows" / "ci.yml")
    assert "if" not in workflow["jobs"]["docs"]
    assert ["make", "docs"] in [
        shlex.split(step.get("run", "")) for step in workflow["jobs"]["docs"]["steps"]
    ]


def test_every_python_that_is_promised_is_tested_and_gets_a_wheel() -> None:
    promised = [
        version
        for line in PYPROJECT["project"]["classifiers"]
        if re.fullmatch(r"3\.\d+", version := line.rpartition(" :: ")[2])
    ]
    matrix = jobs(GITHUB / "workflows" / "ci.yml")["quick"]["strategy"]["matrix"]
    wheels = re.findall(r"cp3(\d+)-", PYPROJECT["tool"]["cibuildwheel"]["build"])

    assert matrix["python"] == promised
    assert [f"3.{minor}" for minor in wheels] == promised


def test_only_wheels_with_the_compiled_core_are_published() -> None:
    for path in WORKFLOWS:
        assert "HATCH_BUILD_NO_HOOKS" not in path.read_text()
    release = jobs(GITHUB / "workflows" / "release.yml")
    assert release["build"]["uses"] == "./.github/workflows/wheels.yml"
    assert "build" in release["publish"]["needs"]
    assert "assert in_use() == 'compiled'" in PYPROJECT["tool"]["cibuildwheel"]["test-command"]
    assert ["python", "-m", "cibuildwheel", "--output-dir", "dist"] in commands(
        GITHUB / "workflows" / "wheels.yml"
    )


@pytest.mark.parametrize("name", ["ISSUE_TEMPLATE/bug.yml", "PULL_REQUEST_TEMPLATE.md"])
def test_templates_ask_for_a_report_that_can_be_written(name: str) -> None:
    (asked,) = re.findall(r"`jdbcstore (\S+) (--\S+) \S+`", (GITHUB / name).read_text())
    assert asked == (doctor.name, "--report")
    assert "--report" in {option for parameter in doctor.params for option in parameter.opts}


def test_hooks_run_what_lint_runs() -> None:
    [local] = read(ROOT / ".pre-commit-config.yaml")["repos"]
    hooks = {" ".join(hook["entry"].split()[:2]) for hook in local["hooks"] if hook["language"] == "system"}
    lint = re.findall(r"^\t\$\(BIN\)/(\w+(?: check| format)?)", LINT, re.MULTILINE)

    assert local["repo"] == "local"
    assert hooks == {f".venv/bin/{program}" for program in lint}

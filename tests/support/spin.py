"""Models in Promela, compiled once by ``spin`` and gcc, then run with bounds, a mutation or a trace."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.support.require import unavailable

MODELS = Path(__file__).parents[1] / "model"
_DEPTH = 100_000
_SECONDS = 240

Event = tuple[int, ...]
"""A kind and up to three numbers, as in the model's list of events."""


@dataclass(frozen=True)
class Verdict:
    """The outcome of a run."""

    violated: str | None
    """The label of the assertion that does not hold; ``end``: processes wait for each other."""
    states: int
    """The number of states that were explored."""
    replayed: int
    """The number of events of the trace that the model allows."""


class Model:
    """A model, compiled with these definitions into a folder."""

    def __init__(self, name: str, folder: Path, **definitions: int) -> None:
        if shutil.which("spin") is None or shutil.which("gcc") is None:
            unavailable("spin", "on Debian: apt-get install spin gcc")
        self.source = MODELS / f"{name}.pml"
        self._folder = folder
        defines = [f"-D{key}={value}" for key, value in definitions.items()]
        for path in MODELS.glob("*.pml"):
            shutil.copy(path, folder)
        self._run(["spin", "-o7", *defines, "-a", self.source.name])
        options = ["-O1", "-w", "-DSAFETY", "-DNOREDUCE", "-DVECTORSZ=8192"]
        self._run(["gcc", *options, "-o", "pan", "pan.c"])

    def _run(self, command: list[str], **environment: str) -> str:
        done = subprocess.run(
            command,
            cwd=self._folder,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The definitions of the source that are numbers: mutations, events, results."""
        found = re.findall(r"^#define (\w+) (\d+)\b", self.source.read_text(), re.MULTILINE)
        return {name: int(number) for name, number in found}

    @cached_property
    def mutations(self) -> list[str]:
        """The names of the mutations."""
        [part] = re.findall(r"/\* The mutations(.*?)/\* The events", self.source.read_text(), re.DOTALL)
        return re.findall(r"#define (\w+) \d", part)

    @cached_property
    def _properties(self) -> dict[str, str]:
        """The labels of the assertions, by their condition."""
        found = re.findall(r"assert\(([^;]*?)\);?\s*/\* (\w+)", self.source.read_text())
        return {_bare(condition): label for condition, label in found} | {
            _bare("history[at] != -(1)"): "trace"
        }

    def check(
        self, bounds: Sequence[int], mutation: str | None = None, trace: Sequence[Event] | None = None
    ) -> Verdict:
        """Explore every state within the bounds, or those in which the events of the trace happen."""
        environment = {"MODEL_BOUNDS": " ".join(map(str, bounds))}
        if mutation is not None:
            environment["MODEL_MUTATION"] = str(self.numbers[mutation])
        if trace is not None:
            path = self._folder / "trace"
            path.write_text("\n".join(str(_encoded(event)) for event in trace) + "\n")
            environment["MODEL_TRACE"] = str(path)
        # Where a trace is not allowed, processes wait for each other.
        anywhere = [] if trace is None else ["-E"]
        output = self._run(["./pan", f"-m{_DEPTH}", "-n", "-w20", *anywhere], **environment)
        assert "max search depth too small" not in output, output
        [states] = re.findall(r"(\d+) states, stored", output)
        replayed = [int(number) for number in re.findall(r"^replayed (\d+)", output, re.MULTILINE)]
        return Verdict(self._violated(output), int(states), max(replayed, default=0))

    def _violated(self, output: str) -> str | None:
        found = re.search(r"^pan:\d+: (.*) \(at depth", output, re.MULTILINE)
        if found is None:
            assert "errors: 0" in output, output
            return None
        what = found[1].removeprefix("assertion violated ")
        return "end" if what == "invalid end state" else self._properties.get(_bare(what), what)

    def refused_at(self, bounds: Sequence[int], trace: Sequence[Event]) -> int | None:
        """Return the index of the first event that the model does not allow; None if it allows the trace."""
        verdict = self.check(bounds, trace=trace)
        assert verdict.violated in (None, "trace"), verdict
        return None if verdict.replayed == len(trace) else verdict.replayed


def _bare(condition: str) -> str:
    return re.sub(r"[\s()]", "", condition)


def _encoded(event: Event) -> int:
    kind, *numbers = event
    assert all(0 <= number < 64 for number in numbers), event
    first, second, third = (*numbers, 0, 0, 0)[:3]
    return ((kind * 64 + first) * 64 + second) * 64 + third

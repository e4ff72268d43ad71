"""The inputs that fuzzing has kept, and those that found a defect: each is read, or refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jdbcstore.errors import ProtocolError
from tests.fuzzing.target import CORPUS, Target, check
from tests.fuzzing.targets import TARGETS


def inputs() -> Iterator[object]:
    for target in TARGETS.values():
        for path in sorted(target.corpus.glob("*")):
            yield pytest.param(target, path, id=f"{target.name}-{path.name}")


@pytest.mark.parametrize(("target", "path"), inputs())
def test_an_input_is_read_or_refused(target: Target, path: Path) -> None:
    check(target, path.read_bytes())


@pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))
def test_valid_inputs_are_accepted(target: Target) -> None:
    assert {check(target, data) for data in target.begin()} >= {True}


def test_each_folder_is_of_a_target() -> None:
    assert {path.name for path in CORPUS.iterdir()} <= TARGETS.keys()


def target_of(error: Exception) -> Target:
    def read(_: bytes) -> None:
        raise error

    return Target("planted", read, (ProtocolError,), "", lambda: ())


def test_a_refusal_is_no_defect() -> None:
    assert not check(target_of(ProtocolError("the frame is damaged")), b"")


@pytest.mark.parametrize(
    "error", [IndexError("out of range"), ProtocolError("x" * 200_000)], ids=["other", "long"]
)
def test_a_planted_defect_is_found(error: Exception) -> None:
    with pytest.raises((IndexError, AssertionError)):
        check(target_of(error), b"")

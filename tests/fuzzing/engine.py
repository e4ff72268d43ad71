"""The process in which atheris fuzzes one target: the product as Python, with its branches counted."""

from __future__ import annotations

import logging
import sys

import atheris

with atheris.instrument_imports(include=["jdbcstore", "cronsim"]):
    from tests.fuzzing.target import check_bounded
    from tests.fuzzing.targets import TARGETS


def main() -> None:
    """Fuzz the target that the first argument names; the others are libFuzzer's."""
    target = TARGETS[sys.argv[1]]
    logging.disable(logging.WARNING)

    def read(data: bytes) -> None:
        check_bounded(target, data)

    atheris.Setup([sys.argv[0], *sys.argv[2:]], read)
    atheris.Fuzz()


if __name__ == "__main__":
    main()

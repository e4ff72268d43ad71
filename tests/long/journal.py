"""``python -m tests.long.journal --seed N``: what the suite tries in part, in full.

The machine goes down at every boundary of short histories, with writes torn at every byte; and at random,
over so many lives. Every bit is flipped, and every byte cut. So many inputs of nonsense are read. So many
journals of killed processes are spoilt, opened or repaired, and written to.
"""

from __future__ import annotations

import logging
import random
import tempfile
import time
from collections import Counter
from pathlib import Path

import click

from tests.support.journal.damaging import BODIES, Fuzz, every_cut, every_flip, spoilt, written
from tests.support.journal.lives import OPTIONS, at_every_boundary, live_many_lives
from tests.support.journaled.spoiling import spoil_many


@click.command(help=__doc__)
@click.option("--seed", type=int, help="That of an earlier run, to choose the same again.")
@click.option("--lives", default=5_000, show_default=True, help="Of journals that crash at random.")
@click.option("--inputs", default=1_000_000, show_default=True, help="Of nonsense.")
@click.option("--trials", default=2_000, show_default=True, help="Of journals that are spoilt and used.")
@click.option("--step", default=1, show_default=True, help="Bytes between two places where a write is torn.")
@click.option("--folder", type=click.Path(path_type=Path), help="Where the files are.")
def main(seed: int | None, lives: int, inputs: int, trials: int, step: int, folder: Path | None) -> None:
    seed = random.randrange(10**6) if seed is None else seed
    click.echo(f"seed {seed}")
    logging.disable()
    with tempfile.TemporaryDirectory(prefix="jdbcstore-journal-", dir=folder) as place:
        begin = time.monotonic()
        ends = spoil_many(Path(place), seed, trials)
        click.echo(f"{trials} spoilt in {time.monotonic() - begin:.0f} s: {dict(ends)}")
        _crash(Path(place), seed, lives, step)
        _damage(Path(place), seed, inputs)


def _crash(place: Path, seed: int, lives: int, step: int) -> None:
    for number, options in enumerate(OPTIONS):
        begin = time.monotonic()
        (place / f"short-{number}").mkdir()
        states = at_every_boundary(
            place / f"short-{number}", options, lambda size: range(1, size, step), interrupted=10
        )
        click.echo(f"{states} disks of short histories in {time.monotonic() - begin:.0f} s: {options}")
    begin = time.monotonic()
    for number in range(lives // 50):
        live_many_lives(place / f"long-{number}", random.Random(seed + number), lives=50)
    click.echo(f"{lives // 50 * 50} lives in {time.monotonic() - begin:.0f} s")


def _damage(place: Path, seed: int, inputs: int) -> None:
    begin = time.monotonic()
    files = written(place / "damage", BODIES)
    ends: Counter[str] = Counter()
    for name, data in files.items():
        ends.update(spoilt(place / "damage", *it, BODIES) for it in every_cut(name, data))
        ends.update(
            spoilt(place / "damage", *it, BODIES) for it in every_flip(name, data, range(8 * len(data)))
        )
        (place / "damage" / name).write_bytes(data)
    click.echo(f"every bit and cut in {time.monotonic() - begin:.0f} s: {dict(ends)}")
    begin = time.monotonic()
    (place / "nonsense").mkdir()
    fuzz = Fuzz(place / "nonsense", seed)
    most = fuzz.measure(min(inputs, 10_000))
    fuzz.run(inputs - min(inputs, 10_000))
    click.echo(
        f"{inputs} inputs of nonsense in {time.monotonic() - begin:.0f} s: {fuzz.read} records,"
        f" {fuzz.damages} times damaged, at most {most} bytes"
    )


if __name__ == "__main__":
    main()

"""What processes that claim from limited queues have noted, and what in it breaks a rule.

A claim is certainly in force from when it was noted until its settlement begins, if that succeeded; else only
as long as the process could believe in its lease, and as its settlement had not begun.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

REMOVING, RETURNING = "removing", "returning"
_SETTLED = {REMOVING: "removed", RETURNING: "returned"}
_NEVER = float("inf")
_CLOCKS = 1.001
"""The most by which the database's clock may be faster than that of the notes."""
_EXCESS = 0.5
"""Less than a claim."""


class Note(NamedTuple):
    """A line that a process has written."""

    what: str
    """``taken``; ``removing`` or ``returning``, then ``removed`` or ``returned`` or ``lost``."""
    queue: str
    begun: float
    """When it began to do so."""
    at: float
    ids: list[int]
    session: int
    """The number of the lease."""
    believed: float
    """Until when its lease was believed to be running then; 0 if it was another."""


class Held(NamedTuple):
    """A claim, and from when to when it was certainly in force."""

    queue: str
    id: int
    begin: float
    end: float


def read(file: Path) -> list[Note]:
    """All notes that are complete, in the order of time."""
    lines = file.read_text().split("\n")[:-1] if file.exists() else []
    return sorted((Note(*json.loads(line)) for line in lines), key=lambda note: note.at)


def held(notes: Sequence[Note]) -> list[Held]:
    """The claims that were certainly in force, and when."""
    believed: dict[int, float] = defaultdict(float)
    for note in notes:
        believed[note.session] = max(believed[note.session], note.believed)
    claims: dict[tuple[str, int, int], list[Note]] = defaultdict(list)
    for note in notes:
        for id_ in note.ids:
            claims[note.queue, id_, note.session].append(note)
    found: list[Held] = []
    for (queue, id_, session), of_one in claims.items():
        for taken, after in _lives(of_one):
            begun = next((note for note in after if note.what in _SETTLED), None)
            is_settled = begun is not None and any(note.what == _SETTLED[begun.what] for note in after)
            end = _NEVER if begun is None else begun.at
            found.append(Held(queue, id_, taken.at, end if is_settled else min(end, believed[session])))
    return found


def _lives(notes: list[Note]) -> Iterator[tuple[Note, list[Note]]]:
    """Yield each time that a session has taken a message, and what it noted of it until the next."""
    starts = [number for number, note in enumerate(notes) if note.what == "taken"]
    for start, end in zip(starts, [*starts[1:], len(notes)], strict=True):
        yield notes[start], notes[start + 1 : end]


def most_at_once(claims: Iterable[Held]) -> int:
    """The most claims that were certainly in force at the same time."""
    changes: list[tuple[float, int]] = []
    for one in claims:
        if one.end > one.begin:
            changes += [(one.begin, 1), (one.end, -1)]
    most = count = 0
    for _, change in sorted(changes):  # of two at the same time, an end is first
        count += change
        most = max(most, count)
    return most


def twice(claims: Iterable[Held]) -> list[int]:
    """Messages of which two claims were in force at the same time."""
    of_ids: dict[int, list[Held]] = defaultdict(list)
    for one in claims:
        of_ids[one.id].append(one)
    return [id_ for id_, every in of_ids.items() if most_at_once(every) > 1]


def overtaken(notes: Iterable[Note], ids: Sequence[int]) -> list[int]:
    """Messages of one key, given in order, that were not settled when a later one was taken."""
    settled: dict[int, float] = {}
    late = set[int]()
    for note in notes:
        if note.what == REMOVING:
            for id_ in note.ids:
                settled.setdefault(id_, note.at)
        elif note.what == "taken" and note.ids:
            last = max(note.ids)
            late |= {id_ for id_ in ids if id_ < last and settled.get(id_, _NEVER) > note.at}
    return sorted(late)


def excess(notes: Iterable[Note], rate: float, burst: int) -> float:
    """How many claims more than a rate allows were certainly made in some time; negative if there is room."""
    taken = sorted((one.at, one.begun, len(one.ids)) for one in notes if one.what == "taken" and one.ids)
    worst = -_NEVER
    for begin in {begun for _, begun, _ in taken}:
        total = 0
        for at, begun, count in taken:
            if begun >= begin:
                total += count
                worst = max(worst, total - burst - rate * (at - begin))
    return worst


def is_within(notes: Iterable[Note], rate: float, burst: int) -> bool:
    """Whether no more was claimed than a rate allows."""
    return excess(notes, rate * _CLOCKS, burst) <= _EXCESS


def beside_pauses(notes: Iterable[Note], pauses: Iterable[tuple[float, float]]) -> list[int]:
    """Messages that were claimed while that was paused: from when the pause was set to when it was undone."""
    pauses = [*pauses]
    return [
        id_
        for note in notes
        if note.what == "taken" and any(begin <= note.begun and note.at <= end for begin, end in pauses)
        for id_ in note.ids
    ]


def accounts(notes: Iterable[Note], added: Iterable[int], left: Iterable[int]) -> list[str]:
    """Messages that are lost, or that came back after they were removed.

    :param left: those that are still in the queue
    """
    removing, removed = Counter[int](), Counter[int]()
    for note in notes:
        if note.what == REMOVING:
            removing.update(note.ids)
        if note.what == _SETTLED[REMOVING]:
            removed.update(note.ids)
    left = {*left}
    return [
        *(f"{id_} is lost" for id_ in added if id_ not in left and id_ not in removing),
        *(f"{id_} was removed, and is there" for id_ in removed if id_ in left),
        *(f"{id_} was removed twice" for id_, times in removed.items() if times > 1),
    ]


def unfair(taken: Mapping[str, int], weights: Mapping[str, int], part: float, slack: float) -> list[str]:
    """Keys whose claims are further from their weight's share than a part of it and some more."""
    unit = sum(taken[key] for key in weights) / sum(weights.values())
    return [
        f"{taken[key]} of {key}, and {unit * weight:.0f} are its share"
        for key, weight in weights.items()
        if abs(taken[key] - unit * weight) > part * unit * weight + slack
    ]

"""A round of kills: queues with settings chosen by chance, processes that claim from them, and a verdict."""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from jdbcstore import Message
from jdbcstore.stores.claims import Claims
from jdbcstore.testing.polling import wait_until
from tests.support.claims import rules
from tests.support.claims.flowing import LIMITED, ORDERED, QUEUES, RATED, SHARED, start
from tests.support.claims.victims import FAILED
from tests.support.databases import Database

WEIGHTS = {"a": 1, "b": 2, "c": 4}
"""Of keys that have messages all the time, and no limit."""
_SINGLES = "def"
"""Keys with a limit of one claim."""
_SLOW, _SHUT, _PAUSED = "ghi"
"""Keys with a rate, with a pause, and with one pause after the other."""
_KEY_RATE, _KEY_BURST = 0.5, 2
_LINES = 12
"""Keys whose messages are in order."""
_EACH = 2
"""Messages for each kill and queue."""
_PAGE = 500
_PAUSE = 0.2
"""Seconds for which something is paused, or nothing is."""
_PART, _SLACK = 0.05, 12
"""How far from its share a key may be: claims that were killed before they were noted are not counted."""


@dataclass
class Verdict:
    """What a round has shown."""

    wrong: list[str]
    ways: Counter[str]
    """How the processes have ended."""
    claims: int
    shares: Counter[str] = field(default_factory=Counter)
    """Claims by key of those with weights."""


class FlowRound:
    """The queues of a round, in a database in which nobody else claims."""

    def __init__(self, claims: Claims, database: Database, file: Path, seed: int) -> None:
        self._claims = claims
        self._database = database
        self._file = file
        self._seed = seed
        self._keys: dict[int, str] = {}
        self._pauses: list[tuple[float, float]] = []

    def run(self, kills: int, beside: int, mutation: str = "") -> Verdict:
        """Kill processes, and judge what all have noted."""
        self._set()
        self._fill(kills)
        with start(self._database.url, self._file, kills, self._seed, beside, mutation) as process:
            while process.poll() is None:
                self._pause(process)
            assert process.stdout is not None
            ways = Counter[str](json.loads(process.stdout.read()))
        queues = [self._claims.queue(name) for name in QUEUES]
        wait_until(lambda: all(len({*queue.count()}) == 1 for queue in queues), what="that all are free")
        left = [row[0] for row in self._database.rows("SELECT ID FROM ACTIVEMQ_MSGS")]
        for queue in queues:
            queue.purge()
        return self._judge(left, ways)

    def _set(self) -> None:
        chance = random.Random(self._seed)
        self._limit = chance.randint(2, 4)
        self._rate, self._burst = chance.uniform(0.4, 1.2), chance.randint(2, 4)
        self._claims.queue(LIMITED).flow.limit(claims=self._limit)
        self._claims.queue(RATED).flow.limit(rate=self._rate, burst=self._burst)
        shared = self._claims.queue(SHARED).flow
        shared.share()
        for key, weight in WEIGHTS.items():
            shared.set_key(key, weight=weight)
        for key in _SINGLES:
            shared.set_key(key, claims=1)
        shared.set_key(_SLOW, rate=_KEY_RATE, burst=_KEY_BURST)
        shared.set_key(_SHUT, paused=True)
        self._claims.queue(ORDERED).flow.share(in_order=True)

    def _fill(self, kills: int) -> None:
        enough = _EACH * kills
        shared = [key for key, weight in WEIGHTS.items() for _ in range(weight * kills // 2)]
        shared += [key for key in (*_SINGLES, _SLOW, _SHUT, _PAUSED) for _ in range(kills)]
        lines = [f"line{number % _LINES}" for number in range(enough)]
        for name, keys in (
            (LIMITED, [""] * enough),
            (RATED, [""] * enough),
            (SHARED, shared),
            (ORDERED, lines),
        ):
            for begin in range(0, len(keys), _PAGE):
                some = keys[begin : begin + _PAGE]
                ids = self._claims.queue(name).add(*(Message("", group_id=key or None) for key in some))
                self._keys.update(zip(ids, some, strict=True))

    def _pause(self, process: subprocess.Popen[str]) -> None:
        """Pause a queue, then a key, and undo it, unless the process ends meanwhile."""
        limited, shared = self._claims.queue(LIMITED).flow, self._claims.queue(SHARED).flow
        with suppress(subprocess.TimeoutExpired):
            process.wait(_PAUSE)
        limited.pause()
        shared.pause_key(_PAUSED)
        begun = time.monotonic()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_PAUSE)
        ended = time.monotonic()
        limited.resume()
        shared.resume_key(_PAUSED)
        self._pauses.append((begun, ended))

    def _judge(self, left: list[int], ways: Counter[str]) -> Verdict:
        notes = rules.read(self._file)
        of_queue = {name: [note for note in notes if note.queue == name] for name in QUEUES}
        held = rules.held(notes)
        wrong = [f"{ways[FAILED]} processes have failed"] if ways[FAILED] else []
        wrong += [f"{id_} was claimed twice" for id_ in rules.twice(held)]
        most = rules.most_at_once(one for one in held if one.queue == LIMITED)
        if most > self._limit:
            wrong.append(f"{most} claims, and the limit is {self._limit}")
        for key in _SINGLES:
            if rules.most_at_once(one for one in held if self._keys[one.id] == key) > 1:
                wrong.append(f"more than one claim of {key}, which is its limit")
        if not rules.is_within(of_queue[RATED], self._rate, self._burst):
            wrong.append(f"{rules.excess(of_queue[RATED], self._rate, self._burst):.2f} above the rate")
        if not rules.is_within(self._of_key(of_queue[SHARED], _SLOW), _KEY_RATE, _KEY_BURST):
            wrong.append("above the rate of a key")
        late = rules.beside_pauses(of_queue[LIMITED], self._pauses)
        late += rules.beside_pauses(self._of_key(of_queue[SHARED], _PAUSED), self._pauses)
        late += [id_ for note in self._of_key(of_queue[SHARED], _SHUT) for id_ in note.ids]
        wrong += [f"{id_} was claimed in a pause" for id_ in late]
        for number in range(_LINES):
            key = f"line{number}"
            ids = [id_ for id_, name in self._keys.items() if name == key]
            of_key = self._of_key(of_queue[ORDERED], key)
            wrong += [f"{id_} of {key} was overtaken" for id_ in rules.overtaken(of_key, ids)]
        wrong += rules.accounts(notes, self._keys, left)
        verdict = Verdict(wrong, ways, sum(len(note.ids) for note in notes if note.what == "taken"))
        self._judge_shares(verdict, of_queue[SHARED], left)
        return verdict

    def _of_key(self, notes: list[rules.Note], key: str) -> list[rules.Note]:
        """The same about the messages of one key only."""
        found = (note._replace(ids=[id_ for id_ in note.ids if self._keys[id_] == key]) for note in notes)
        return [note for note in found if note.ids]

    def _judge_shares(self, verdict: Verdict, notes: list[rules.Note], left: list[int]) -> None:
        for note in notes:
            if note.what == "taken":
                verdict.shares.update(key for id_ in note.ids if (key := self._keys[id_]) in WEIGHTS)
        if all(any(self._keys[id_] == key for id_ in left) for key in WEIGHTS):
            verdict.wrong += rules.unfair(verdict.shares, WEIGHTS, _PART, _SLACK)

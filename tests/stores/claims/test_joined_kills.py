"""Processes that are killed between any two statements of consume, write, send and acknowledge."""

from __future__ import annotations

import pytest

from jdbcstore import Message
from tests.stores.claims.conftest import OpenClaims
from tests.support.claims import moving
from tests.support.claims.callers import create_effects, effects
from tests.support.claims.victims import KILLED
from tests.support.databases import Database

pytestmark = [pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql"), pytest.mark.slow]

KILLS, MESSAGES = 24, 40


def test_every_effect_is_there_once(open_claims: OpenClaims, database: Database, url: str) -> None:
    create_effects(database)
    claims = open_claims(max_redeliveries=-1)
    claims.queue(moving.SOURCE).add(*map(Message, moving.names(MESSAGES)))

    ends = moving.run(url, KILLS, seed=1, count=MESSAGES)

    assert ends["drained"] == 1
    assert ends[KILLED] >= KILLS // 2
    assert effects(database) == sorted([*moving.names(MESSAGES), *moving.ids(MESSAGES)])
    sent = claims.queue(moving.TARGET)
    assert sent.count() == (MESSAGES, MESSAGES)
    assert {claim.message.body for claim in sent.claim(2 * MESSAGES)} == {*moving.names(MESSAGES)}
    assert claims.queue(moving.SOURCE).count() == (0, 0)

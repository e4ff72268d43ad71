"""A failover pair of the real ActiveMQ and jdbcstore: whichever is killed, the other has all messages."""

from __future__ import annotations

import pytest

from tests.support.databases import Database
from tests.support.interop.activemq import PeerMissing
from tests.support.interop.pair import LOCKERS, Pair
from tests.support.require import unavailable


@pytest.mark.backends("postgresql")
@pytest.mark.parametrize("locker", LOCKERS)
def test_each_follows_the_other(database: Database, locker: str) -> None:
    try:
        pair = Pair(database, locker)
    except PeerMissing as missing:
        unavailable("activemq", str(missing))
    try:
        pair.hand_over()
    finally:
        pair.close()

"""A failover pair of the real ActiveMQ and jdbcstore: whichever is killed, the other has all messages."""

from __future__ import annotations

import pytest

from tests.databases import Database
from tests.interop.activemq import PeerMissing
from tests.interop.pair import LOCKERS, Pair
from tests.require import unavailable


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

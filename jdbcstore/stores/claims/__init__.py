"""Queues that any number of processes share: each claims messages, and none is the master."""

from jdbcstore.stores.claims.asynchronous import AsyncClaimQueue, AsyncClaims, AsyncQueueFlow
from jdbcstore.stores.claims.claims import Claims
from jdbcstore.stores.claims.flow import QueueFlow
from jdbcstore.stores.claims.joined import JoinedTransaction
from jdbcstore.stores.claims.queue import Claim, ClaimQueue
from jdbcstore.stores.jdbc.wakeups import Wakeups
from jdbcstore.util.shared_queues import FlowSettings, KeySettings

__all__ = [
    "AsyncClaimQueue",
    "AsyncClaims",
    "AsyncQueueFlow",
    "Claim",
    "ClaimQueue",
    "Claims",
    "FlowSettings",
    "JoinedTransaction",
    "KeySettings",
    "QueueFlow",
    "Wakeups",
]

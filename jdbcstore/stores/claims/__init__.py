"""Queues that any number of processes share: each claims messages, and none is the master."""

from jdbcstore.stores.claims.asynchronous import AsyncClaimQueue, AsyncClaims, AsyncQueueFlow
from jdbcstore.stores.claims.claims import Claims
from jdbcstore.stores.claims.flow import FlowSettings, KeySettings, QueueFlow
from jdbcstore.stores.claims.joined import JoinedTransaction
from jdbcstore.stores.claims.queue import Claim, ClaimQueue

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
]

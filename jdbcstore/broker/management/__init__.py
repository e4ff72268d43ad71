"""The management of a running broker: views, operations, and the audit log."""

from jdbcstore.broker.management.audit import Actor
from jdbcstore.broker.management.management import Management
from jdbcstore.broker.management.messages import MessageChoice
from jdbcstore.broker.management.views import (
    BrokerIdentity,
    BrokerView,
    ConnectionView,
    DestinationView,
    LockEvent,
    MastershipView,
    StoreView,
    SubscriptionView,
    TimingsView,
    TransactionView,
)
from jdbcstore.broker.operations import OperationOutcome

__all__ = [
    "Actor",
    "BrokerIdentity",
    "BrokerView",
    "ConnectionView",
    "DestinationView",
    "LockEvent",
    "Management",
    "MastershipView",
    "MessageChoice",
    "OperationOutcome",
    "StoreView",
    "SubscriptionView",
    "TimingsView",
    "TransactionView",
]

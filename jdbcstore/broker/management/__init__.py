"""The management of a broker while it serves: views, operations, and the audit log."""

from jdbcstore.broker.management.audit import Actor
from jdbcstore.broker.management.management import Management
from jdbcstore.broker.management.messages import Choice
from jdbcstore.broker.management.views import (
    BrokerView,
    ConnectionView,
    DestinationView,
    LockEvent,
    LockView,
    Outcome,
    StoreView,
    SubscriptionView,
    TimingsView,
    TransactionView,
)

__all__ = [
    "Actor",
    "BrokerView",
    "Choice",
    "ConnectionView",
    "DestinationView",
    "LockEvent",
    "LockView",
    "Management",
    "Outcome",
    "StoreView",
    "SubscriptionView",
    "TimingsView",
    "TransactionView",
]

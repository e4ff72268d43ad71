"""Log lines for configured events: ActiveMQ's ``loggingBrokerPlugin``.

A line names messages without their bodies and properties.
"""

from __future__ import annotations

import logging
from asyncio import Future
from collections.abc import Sequence

from jdbcstore.broker.api import (
    BrokerTransaction,
    ConnectionInfo,
    Delivery,
    DurableInfo,
    Known,
    MessageEvent,
    ProducerInfo,
    Subscription,
    SubscriptionRequest,
)
from jdbcstore.config.plugins import LoggingConfig
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message

log = logging.getLogger(__name__)


class EventLog:
    """Logs events according to the options of the plug-in; a :class:`jdbcstore.broker.api.Watcher`."""

    def __init__(self, config: LoggingConfig) -> None:
        def wants(is_wanted: bool) -> bool:
            return config.log_all or is_wanted

        self._connections = wants(config.log_connection_events)
        self._producers = wants(config.log_producer_events)
        self._consumers = wants(config.log_consumer_events)
        self._transactions = wants(config.log_transaction_events)
        self._internal = wants(config.log_internal_events)
        self._per_destination = config.per_destination_logger

    def added(self, what: Known) -> None:
        if self._is_wanted(what):
            log.info("added: %s", _described(what))

    def removed(self, what: Known) -> None:
        if self._is_wanted(what):
            log.info("removed: %s", _described(what))

    def happened(self, event: MessageEvent) -> None:
        if self._internal:
            log.info("%s: message %s of %s", event.kind, event.message.message_id, event.destination)

    def _is_wanted(self, what: Known) -> bool:
        match what:
            case ConnectionInfo():
                return self._connections
            case ProducerInfo():
                return self._producers
            case SubscriptionRequest() | DurableInfo():
                return self._consumers
            case _:
                return self._internal

    def sent(self, message: Message) -> Message:
        """Log a sent message, and return it."""
        if self._producers:
            logger = log
            destination = message.destination
            if self._per_destination and destination is not None:
                kind = "Topic" if destination.is_topic else "Queue"
                logger = log.getChild(f"{kind}.{destination.name}")
            logger.info("sent: message %s to %s", message.message_id, destination)
        return message

    def acknowledged(self, request: SubscriptionRequest, deliveries: Sequence[Delivery]) -> None:
        """Log acknowledged messages."""
        if self._consumers:
            ids = ", ".join(str(delivery.message.message_id) for delivery in deliveries)
            log.info("acknowledged: %s by %s", ids, request.client_id or request.connection_id)

    def transaction(self, transaction: BrokerTransaction, connection_id: str) -> BrokerTransaction:
        """Return the transaction; its end is logged if configured."""
        if not self._transactions:
            return transaction
        log.info("began: a transaction of %s", connection_id)
        return _LoggedTransaction(transaction, connection_id)


class _LoggedTransaction:
    """A :class:`jdbcstore.broker.api.BrokerTransaction` whose end is logged."""

    def __init__(self, transaction: BrokerTransaction, connection_id: str) -> None:
        self._transaction = transaction
        self._connection_id = connection_id

    def send(self, message: Message) -> Future[None]:
        return self._transaction.send(message)

    def acknowledge(self, subscription: Subscription, deliveries: Sequence[Delivery]) -> None:
        self._transaction.acknowledge(subscription, deliveries)

    def commit(self) -> Future[None]:
        log.info("committing: the transaction of %s", self._connection_id)
        return self._transaction.commit()

    def prepare(self) -> Future[bool]:
        log.info("preparing: the transaction of %s", self._connection_id)
        return self._transaction.prepare()

    def rollback(self) -> None:
        log.info("rolling back: the transaction of %s", self._connection_id)
        self._transaction.rollback()


def _described(what: Known) -> str:
    match what:
        case ConnectionInfo():
            user = f", user {what.user}" if what.user else ""
            return f"connection {what.connection_id}, client id {what.client_id}{user}, from {what.peer}"
        case ProducerInfo():
            return f"producer {what.producer_id} of {what.destination}"
        case SubscriptionRequest():
            durable = f", durable as {what.subscription_name}" if what.subscription_name else ""
            return f"consumer {what.consumer_id or what.connection_id} of {what.destination}{durable}"
        case DurableInfo():
            return f"durable subscription {what.client_id}:{what.subscription_name} of {what.destination}"
        case Destination():
            return str(what)

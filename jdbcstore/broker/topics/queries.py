"""User-defined queries of messages for new subscribers: ``queryBasedSubscriptionRecoveryPolicy``."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from typing import Protocol, cast

from jdbcstore.config.policy import QueryBasedSubscriptionRecoveryPolicy, SubscriptionRecoveryPolicy
from jdbcstore.errors import ConfigurationError
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message


class MessageQuery(Protocol):
    """Finds messages; made without arguments, once for each topic."""

    def execute(self, topic: Destination) -> Iterable[Message]:
        """Return the messages for a new subscriber of a topic; called in a thread."""

    def validate_update(self, message: Message) -> bool:
        """Return whether a message of the topic is passed on to subscribers; called on the broker's loop."""


def make_query(policy: SubscriptionRecoveryPolicy) -> MessageQuery | None:
    """Make the query of a policy; None if it has none.

    :raises ConfigurationError: the class does not exist, or is not a query
    """
    if not isinstance(policy, QueryBasedSubscriptionRecoveryPolicy):
        return None
    where = str(policy.query)
    try:
        made = pkgutil.resolve_name(where)()
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        text = f"there is no query {where!r}: {error}; use the form package.module:Class"
        raise ConfigurationError(text, option="subscription_recovery_policy") from error
    if not all(hasattr(made, name) for name in ("execute", "validate_update")):
        text = f"{where} is not a query: it needs the methods execute and validate_update"
        raise ConfigurationError(text, option="subscription_recovery_policy")
    return cast(MessageQuery, made)

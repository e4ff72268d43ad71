"""Dead letters as messages: the properties that a broker adds, and the message without them."""

from __future__ import annotations

from jdbcstore.message.destination import Destination
from jdbcstore.message.message import Message

CAUSE = "dlqDeliveryFailureCause"
"""The property with the reason, which a broker sets."""
ATTEMPTS = "dlqDeliveryAttempts"
"""The property with a line for each attempt: its time, its outcome and the consumer."""
ORIGINAL_EXPIRATION = "originalExpiration"
ORIGINAL_DELIVERY_MODE = "originalDeliveryMode"
DEAD_LETTERS = Destination.queue("ActiveMQ.DLQ")
"""The queue of messages that cannot be delivered, where no other one is configured."""


def restored(message: Message, destination: Destination) -> Message:
    """Return the original message of a dead letter, to be sent again, without its past expiration."""
    added = (CAUSE, ATTEMPTS, ORIGINAL_DELIVERY_MODE, ORIGINAL_EXPIRATION)
    return message.replace(
        destination=destination,
        original_destination=None,
        redelivery_counter=0,
        properties={name: value for name, value in message.properties.items() if name not in added},
        sequence=None,
    )

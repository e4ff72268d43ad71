"""The connector's end of a subscription, for all protocols."""

from __future__ import annotations

import asyncio
import logging
from asyncio import Future
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import TypeVar

from jdbcstore.broker.api import Delivery, Subscription, SubscriptionRequest
from jdbcstore.broker.engine import Engine
from jdbcstore.broker.loop import unheard
from jdbcstore.broker.transport.replies import Receipt, Replies
from jdbcstore.errors import CorruptMessage, LargeBodyMissing

log = logging.getLogger(__name__)

_LONGEST_NAME = 80


class ClientConsumer:
    """A consumer of a client: the broker's :class:`~jdbcstore.broker.api.Consumer`.

    :param on_end: called when the broker has ended the subscription
    """

    def __init__(
        self,
        *,
        replies: Replies,
        request: SubscriptionRequest,
        on_end: Callable[..., None],
    ) -> None:
        self.request = request
        self.subscription: Subscription
        """The broker's end, set by :meth:`open`; nothing is delivered before."""
        self._replies, self._output = replies, replies.output
        self._on_end = on_end

    @property
    def keeps_messages(self) -> bool:
        """False, because a message has been encoded when ``deliver`` returns."""
        return False

    def open(self, subscription: Subscription) -> None:
        """Start deliveries after the broker has accepted the subscription."""
        self.subscription = subscription
        if self._output.paused or self._output.is_streaming:
            subscription.pause()

    def deliver(self, delivery: Delivery) -> None:
        raise NotImplementedError

    def browsed(self) -> None:
        raise NotImplementedError

    def end(self, error: Exception) -> None:
        # Not in this call, because the broker is in the middle of its work.
        asyncio.get_running_loop().call_soon(self._on_end, self, error)

    def describe(self) -> str:
        """Describe special features of the subscription, for the log."""
        request, text = self.request, ""
        if request.subscription_name:
            text += f", durable as {request.subscription_name[:_LONGEST_NAME]}"
        if request.selector is not None:
            text += ", with a selector"
        if request.browser:
            text += ", as a browser"
        return text

    def _write_in_parts(
        self,
        delivery: Delivery,
        frame: AsyncIterator[bytes],
        forget: Callable[[], object],
        *,
        is_text: bool = False,
    ) -> None:
        """Write a frame part by part. A damaged message is rejected: nothing is written, or the connection
        ends.

        :param forget: called before the rejection
        """
        whole = asyncio.get_running_loop().create_future()
        self._replies.track(whole, None)
        self._output.stream(self._parts(delivery, frame, forget, whole), is_text=is_text)

    async def _parts(
        self,
        delivery: Delivery,
        frame: AsyncIterator[bytes],
        forget: Callable[[], object],
        whole: Future[None],
    ) -> AsyncIterator[bytes]:
        begun = False
        try:
            async for part in frame:
                begun = True
                yield part
        except (CorruptMessage, LargeBodyMissing) as error:  # after any other error, it is redelivered
            forget()
            self._reject_later(delivery, error)
            if begun:
                raise
        finally:
            whole.set_result(None)

    def _reject_later(self, delivery: Delivery, error: Exception) -> None:
        """Reject a message that cannot be encoded, so that it does not block the messages behind it."""
        log.error("a message of %s is rejected: %s", delivery.destination, error)
        asyncio.get_running_loop().call_soon(self._reject, delivery)

    def _reject(self, delivery: Delivery) -> None:
        self.subscription.reject([delivery]).add_done_callback(unheard)


_Consumer = TypeVar("_Consumer", bound=ClientConsumer)


def subscribe(
    broker: Engine,
    replies: Replies,
    consumer: _Consumer,
    then: Callable[[_Consumer, Receipt], None],
    receipt: Receipt,
) -> None:
    """Open a consumer, and call ``then`` with it; accept no other command before."""

    def subscribed(subscription: Subscription) -> None:
        consumer.open(subscription)
        then(consumer, receipt)

    subscribing = broker.subscribe(consumer.request, consumer)
    subscribing.add_done_callback(partial(_close_if_ended, replies))
    replies.wait_for(subscribing, subscribed, receipt)


def _close_if_ended(replies: Replies, subscribing: Future[Subscription]) -> None:
    """Close a subscription that was accepted after the end of its connection."""
    if replies.ended and not subscribing.cancelled() and subscribing.exception() is None:
        subscribing.result().close()

"""The writes of a destination, each one unit of its store: executed, or submitted without waiting."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from jdbcstore.abc import MessageReference, Outcome, Reference
from jdbcstore.message.message import Message
from jdbcstore.util.futures import StoreFuture

U = TypeVar("U")


class UnitWrites(ABC, Generic[U]):
    """The writes of :class:`jdbcstore.abc.MessageStore`; ``U`` is a unit of work of the store."""

    execute: Callable[[U], Any]
    """Writes a unit, and returns its result once it is committed."""
    submit: Callable[[U], StoreFuture[Any]]
    """Writes a unit as :attr:`execute`, without waiting."""

    def add_message(self, message: Message) -> MessageReference:
        reference: MessageReference = self.execute(self.unit_of_add(message))
        return reference

    def add_message_async(self, message: Message) -> StoreFuture[MessageReference]:
        return self.submit(self.unit_of_add(message))

    def add_messages(self, messages: Iterable[Message]) -> list[MessageReference]:
        references: list[MessageReference] = self.execute(self.unit_of_adds(messages))
        return references

    def add_messages_async(self, messages: Iterable[Message]) -> StoreFuture[list[MessageReference]]:
        return self.submit(self.unit_of_adds(messages))

    def add_each_async(self, messages: Iterable[Message]) -> StoreFuture[list[Outcome]]:
        return self.submit(self.unit_of_each(messages))

    def acknowledge(self, *messages: Reference) -> None:
        self.execute(self.unit_of_removes(messages))

    def acknowledge_async(self, *messages: Reference) -> StoreFuture[None]:
        return self.submit(self.unit_of_removes(messages))

    def update_message(self, message: Message) -> None:
        self.execute(self.unit_of_update(message))

    @abstractmethod
    def unit_of_add(self, message: Message) -> U:
        """Return the unit that adds a message; its result is the reference."""

    @abstractmethod
    def unit_of_adds(self, messages: Iterable[Message]) -> U:
        """Return the unit that adds messages, all or none; its result is the references."""

    @abstractmethod
    def unit_of_each(self, messages: Iterable[Message]) -> U:
        """Return the unit that adds messages, each or not; its result is the outcomes."""

    @abstractmethod
    def unit_of_removes(self, messages: Sequence[Reference]) -> U:
        """Return the unit that removes messages."""

    @abstractmethod
    def unit_of_update(self, message: Message) -> U:
        """Return the unit that replaces a stored message."""

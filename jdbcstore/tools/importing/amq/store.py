"""The replay of one AMQ store: its journal in order, with transactions, as its broker would after a crash.

Two things are done otherwise than there. The reference store tells which durable subscriptions there are: the
journal does not have their end, and after some time not their beginning. And a message of a topic is there
until each subscription has acknowledged it.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from jdbcstore.message import openwire
from jdbcstore.message.openwire.wire_format import OLD_VERSION
from jdbcstore.tools.importing.amq.commands import key_of, read_command
from jdbcstore.tools.importing.amq.journal import DataFileReader, last_written
from jdbcstore.tools.importing.amq.subscriptions import STATE, KnownSubscriptions, read_subscriptions
from jdbcstore.tools.importing.logged import AckedMessage, Command, Reading, Subscribed
from jdbcstore.tools.importing.numbered import NumberedStore
from jdbcstore.tools.importing.replay import BodyPlace

CONTROL = "data-control"


class AmqStore(NumberedStore):
    """One store, of the folder of its journal."""

    NAME = "data-{}"
    FILE = "file"
    WITNESS = CONTROL
    VERSION = OLD_VERSION

    def __init__(self, folder: Path, reading: Reading) -> None:
        super().__init__(folder, reading)
        self._known = read_subscriptions(folder.parent)
        self._from_the_first: set[str] = set()
        """Subscriptions of which no creation was read yet."""

    @classmethod
    def is_in(cls, folder: Path) -> bool:
        return (folder / CONTROL).exists() and super().is_in(folder)

    @staticmethod
    def name_of(subscription: str) -> str:
        client_id, name = subscription.split("\0")
        return f"{name} of {client_id}"

    def noted(self) -> list[tuple[int, int]]:
        """Return the last record, unless its file may have been removed since then."""
        last = last_written(self.folder / CONTROL)
        numbers = [log.number for log in self.logs]
        return [last] if last is not None and (last[0] in numbers or last[0] > max(numbers)) else []

    def reader(self, path: Path) -> DataFileReader:
        return DataFileReader(path, partial(self.findings.damage, path))

    def read(self, content: bytes, place: BodyPlace) -> Command | None:
        return read_command(content, place)

    def body(self, place: BodyPlace) -> bytes:
        """Return the bytes of a message, once all of it was decoded: nothing else tells of damage."""
        blob = super().body(place)
        message = openwire.decode(blob, version=self.VERSION)
        _ = message.properties, message.body
        return blob

    def run(self) -> None:
        self.findings.note("the AMQ store has no checksums: damage inside a message may not be noticed")
        if self._known is None:
            self.findings.note(
                f"{self.folder.parent / STATE} is missing or damaged: subscriptions that were deleted may"
                " be back, and those are missing whose creation was in a data file that is gone"
            )
            super().run()
            return
        for subscribed in self._known.present.values():
            super().apply(subscribed)
            self._from_the_first.add(subscribed.key)
        super().run()
        self._unsubscribe(self._known)

    def apply(self, command: Command) -> None:
        """Apply a command; in a transaction, at its commit."""
        if (
            isinstance(command, AckedMessage)
            and command.subscription is None
            and command.destination.is_topic
        ):
            # Each subscription has acknowledged it; or one has before the index had it, and the broker has
            # removed it for all.
            return
        if isinstance(command, Subscribed) and command.key in self._from_the_first:
            # It is created here, and gets later messages.
            self._from_the_first.discard(command.key)
            self.replay.unsubscribe(command.info.destination, command.key)
        super().apply(command)

    def _unsubscribe(self, known: KnownSubscriptions) -> None:
        """Remove the subscriptions that were deleted."""
        for topic, subscriptions in self.replay.topics().items():
            for subscription in subscriptions:
                key = key_of(subscription.info.client_id, subscription.info.subscription_name)
                if key in known.gone:
                    self.replay.unsubscribe(topic, key)
        for topic, key in [*self.replay.unknown]:
            if key in known.gone:
                self.replay.unsubscribe(topic, key)

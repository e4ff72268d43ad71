"""What a client asks for in CONNECT and SUBSCRIBE, read from the headers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from jdbcstore.broker.api import SubscriptionRequest
from jdbcstore.broker.stomp.destinations import DestinationNames
from jdbcstore.broker.stomp.frames import Version
from jdbcstore.errors import ProtocolError

_SELECTOR_OF_STRINGS = "convert_string_expressions:"
"""As in ActiveMQ, numbers in properties that STOMP sent as strings compare as numbers."""
_SHORTEST_BEAT_MS = 100


class AckMode(StrEnum):
    """Who says when a message is consumed."""

    AUTO = "auto"
    CLIENT = "client"
    INDIVIDUAL = "client-individual"


@dataclass(frozen=True, slots=True)
class HeartBeats:
    """Milliseconds between signs of life; 0 is none."""

    from_client: int = 0
    from_broker: int = 0

    @classmethod
    def parse(cls, text: str | None) -> HeartBeats:
        """What the client offers and wants; the broker agrees, but not to less than 100 ms.

        :raises ProtocolError: it is not two numbers
        """
        if text is None:
            return cls()
        parts = [part.strip() for part in text.split(",")]
        if len(parts) != 2 or not all(part.isascii() and part.isdigit() and len(part) < 16 for part in parts):
            raise ProtocolError(
                f"Invalid heart-beat header: {text[:40]!r}; it is two numbers of milliseconds", fatal=True
            )
        offered, wanted = (max(int(part), _SHORTEST_BEAT_MS) if int(part) else 0 for part in parts)
        return cls(offered, wanted)

    def __str__(self) -> str:
        return f"{self.from_broker},{self.from_client}"


def choose_version(headers: Mapping[str, str]) -> Version:
    """The highest version both know.

    :raises ProtocolError: there is none
    """
    accepted = headers.get("accept-version", "1.0").split(",")
    known = [version for version in Version if version.value in (text.strip() for text in accepted)]
    if not known:
        raise ProtocolError(
            f"Invalid Protocol version [{','.join(accepted)[:40]}]; accept 1.0, 1.1 or 1.2", fatal=True
        )
    return max(known)


def check_host(headers: Mapping[str, str], virtual_hosts: str | None) -> None:
    """Whether the client has come to the broker that it asks for.

    :raises ProtocolError: it has not
    """
    if virtual_hosts is None:
        return
    host = headers.get("host", "")
    if host not in (name.strip() for name in virtual_hosts.split(",")):
        raise ProtocolError(f"there is no host {host[:80]!r} here; CONNECT with another", fatal=True)


def subscription_request(
    headers: Mapping[str, str],
    names: DestinationNames,
    version: Version,
    connection_id: str,
    client_id: str | None,
) -> SubscriptionRequest:
    """What a SUBSCRIBE asks for.

    :raises ProtocolError: a header is not what it should be
    """
    destination = names.destination(headers["destination"])
    name = headers.get("activemq.subscriptionName")
    if name is not None and not destination.is_topic:
        raise ProtocolError(
            f"Invalid Subscription: cannot durably subscribe to a Queue destination: {destination}"
        )
    if name is not None and client_id is None:
        raise ProtocolError("a durable subscription belongs to a client; give a client-id in CONNECT")
    browser = headers.get("browser") == "true"
    if browser and version is Version.V1_0:
        raise ProtocolError("Browsers are of STOMP 1.1 and 1.2; accept one of these in CONNECT")
    if browser and destination.is_topic:
        raise ProtocolError(f"Browsers are for queues, and {destination} is none")
    selector = headers.get("selector")
    return SubscriptionRequest(
        destination=destination,
        connection_id=connection_id,
        prefetch=_number(headers, "activemq.prefetchSize"),
        selector=None if selector is None else _SELECTOR_OF_STRINGS + selector,
        browser=browser,
        client_id=None if name is None else client_id,
        subscription_name=name,
        retroactive=_flag(headers, "activemq.retroactive"),
        no_local=_flag(headers, "activemq.noLocal"),
        exclusive=_flag(headers, "activemq.exclusive"),
        priority=_number(headers, "activemq.priority", at_least=-128, at_most=127) or 0,
    )


def required(headers: Mapping[str, str], name: str, command: str) -> str:
    """A header that a command cannot do without.

    :raises ProtocolError: it is not there, or empty
    """
    value = headers.get(name)
    if not value:
        raise ProtocolError(f"{command} needs the header {name}; add it")
    return value


def ack_mode(headers: Mapping[str, str]) -> AckMode:
    """As in ActiveMQ, what is not known is ``auto``."""
    try:
        return AckMode(headers.get("ack", AckMode.AUTO))
    except ValueError:
        return AckMode.AUTO


def _flag(headers: Mapping[str, str], name: str) -> bool:
    return headers.get(name, "").strip().lower() == "true"


def _number(
    headers: Mapping[str, str], name: str, *, at_least: int = 0, at_most: int = 0x7FFF_FFFF
) -> int | None:
    text = headers.get(name)
    if text is None:
        return None
    try:
        if len(text) <= 20 and at_least <= (number := int(text)) <= at_most:
            return number
    except ValueError:
        pass
    raise ProtocolError(f"{name} is {text[:20]!r}, and should be {at_least} to {at_most}")

"""Artemis's address-settings as policies, its addresses as destinations, and its diverts as composites."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from jdbcstore.config.fates import FATES
from jdbcstore.config.given import Given, Section
from jdbcstore.config.policy import SlowConsumerRateStrategy
from jdbcstore.config.xml.beans import Document, Element
from jdbcstore.errors import InvalidDestination
from jdbcstore.message.destination import Destination
from jdbcstore.message.patterns import DestinationPattern

_EVERYTHING = ">"
_NO_LIMIT = ("-1", "")
_DIRECT = {
    "default-exclusive-queue": "allConsumersExclusiveByDefault",
    "default-consumers-before-dispatch": "consumersBeforeDispatchStarts",
    "default-delay-before-dispatch": "timeBeforeDispatchStarts",
    "expiry-delay": "expiryDelay",
    "min-expiry-delay": "minExpiryDelay",
    "max-expiry-delay": "maxExpiryDelay",
    "no-expiry": "noExpiry",
}
"""Settings that are attributes of a policy entry with another name."""
_FULL_POLICIES = ("PAGE", "BLOCK", "FAIL", "DROP")
_SECONDS = {
    "MESSAGES_PER_SECOND": 1,
    "MESSAGES_PER_MINUTE": 60,
    "MESSAGES_PER_HOUR": 3600,
    "MESSAGES_PER_DAY": 86400,
}
_SLOW = "slow-consumer-"
_QUEUE_OPTIONS = {
    "exclusive": "allConsumersExclusiveByDefault",
    "consumers-before-dispatch": "consumersBeforeDispatchStarts",
    "delay-before-dispatch": "timeBeforeDispatchStarts",
}
_ANYCAST, _MULTICAST = "anycast", "multicast"
_KIND_OF = {_ANYCAST: "queue", _MULTICAST: "topic"}
_IDENTIFIERS = {
    "AMQPriority": "JMSPriority",
    "AMQTimestamp": "JMSTimestamp",
    "AMQExpiration": "JMSExpiration",
    "AMQUserID": "JMSMessageID",
}
"""Names in Artemis's filters, and their names in selectors."""


class Wildcards:
    """The wildcards of a file, as ActiveMQ's."""

    def __init__(self, document: Document, core: Element) -> None:
        self._document = document
        given = next(core.all("wildcard-addresses"), None)
        texts = {child.name: child.text for child in given.children} if given else {}
        self._delimiter = texts.get("delimiter", ".")
        self._any_words = texts.get("any-words", "#")
        self._single_word = texts.get("single-word", "*")
        if given and self._delimiter != ".":
            document.refuse(
                given,
                f"the parts of addresses are between {self._delimiter!r} here, and between dots in jdbcstore",
            )

    def pattern(self, at: Element, match: str) -> str:
        """Return a match as a name with ActiveMQ's wildcards.

        :raises ConfigurationError: ActiveMQ's cannot express it
        """
        *parts, last = match.split(self._delimiter)
        if self._any_words in parts:
            text = (
                f"{match} has {self._any_words} in the middle, where jdbcstore's wildcards have only *; write"
            )
            raise self._document.error(at, f"{text} each address")
        words = ["*" if part == self._single_word else part for part in (*parts, last)]
        return ".".join([*words[:-1], _EVERYTHING if last == self._any_words else words[-1]])


@dataclass(slots=True)
class Addresses:
    """The addresses of a ``broker.xml``, as sections of a configuration."""

    policies: list[Section] = field(default_factory=list)
    destinations: list[str] = field(default_factory=list)
    composites: list[Section] = field(default_factory=list)


def read_addresses(document: Document, core: Element) -> Addresses:
    """Read address-settings, addresses, queues and diverts."""
    addresses, wildcards = Addresses(), Wildcards(document, core)
    kinds = _Kinds()
    for element in _children(core, "addresses", "address"):
        _read_address(document, element, addresses, kinds)
    for element in _children(core, "queues", "queue"):
        _read_old_queue(document, element, addresses, kinds)
    for element in _children(core, "diverts", "divert"):
        addresses.composites.append(_read_divert(document, element, kinds))
    _check_diverts(document, core)
    addresses.policies += _read_settings(document, core, wildcards)
    return addresses


def _children(core: Element, parent: str, name: str) -> Iterator[Element]:
    for outer in core.children:
        if outer.name == parent:
            yield from (child for child in outer.children if child.name == name)


class _Kinds:
    """The kinds of addresses: queues, topics, or both."""

    def __init__(self) -> None:
        self._known: dict[str, set[str]] = {}

    def add(self, address: str, kind: str) -> None:
        self._known.setdefault(address, set()).add(kind)

    def of(self, address: str) -> list[str]:
        """Return the kinds of an address that the file has; none if it does not have it."""
        return sorted(self._known.get(address, ()))


# Addresses and queues


def _read_address(document: Document, element: Element, addresses: Addresses, kinds: _Kinds) -> None:
    address = document.text(element, element.attributes.get("name", ""))
    if not address:
        raise document.error(element, "an address needs a name; add one")
    for routing in element.children:
        if routing.name not in _KIND_OF:
            document.refuse(routing, "unknown element of address; use anycast or multicast")
            continue
        kind = _KIND_OF[routing.name]
        kinds.add(address, kind)
        addresses.destinations.append(f"{kind}://{address}")
        queues = [child for child in routing.children if child.name == "queue"]
        for queue in queues:
            _check_queue(document, queue, kind)
        if kind == "topic":
            addresses.composites += _of_multicast(document, element, address, queues)
        else:
            _check_anycast(document, address, queues)
            addresses.policies += _of_anycast(document, address, queues)


def _check_queue(document: Document, queue: Element, kind: str) -> None:
    """Note unsupported settings of a queue."""
    given = {**queue.attributes, **{child.name: child.text for child in queue.children}}
    for name, text in given.items():
        if name in ("name", "address", "filter") or (name in _QUEUE_OPTIONS and kind == "queue"):
            continue
        fate = FATES.get(("queue of core", name))
        if fate is not None:
            document.tell(queue, fate, text, name)
        else:
            document.refuse(queue, f"unknown attribute {name!r} of queue; correct it or remove it", name)


def _filter(document: Document, element: Element) -> str | None:
    """Return the filter of a queue or divert as a selector; None if it has none."""
    for child in element.children:
        if child.name == "filter":
            text = child.attributes.get("string", child.text)
            selector = document.text(child, text)
            for name, ours in _IDENTIFIERS.items():
                selector = selector.replace(name, ours)
            selector = selector.replace("AMQDurable = 'DURABLE'", "JMSDeliveryMode = 'PERSISTENT'")
            if "AMQ" in selector:
                document.refuse(child, f"the filter {text!r} asks for what no selector can; write another")
            return selector or None
    return None


def _check_anycast(document: Document, address: str, queues: list[Element]) -> None:
    if len(queues) > 1:
        text = f"messages of {address} are shared by {len(queues)} queues there, and are in one queue here"
        document.refuse(queues[1], f"{text}; leave one")
    for queue in queues:
        if _filter(document, queue) is not None:
            text = f"messages of {address} that the filter does not match would be kept"
            document.refuse(queue, f"{text}; have consumers select, or divert them")
        name = document.text(queue, queue.attributes.get("name", address))
        if name != address:
            document.ignore(queue, f"consumers name the address {address}: a queue has no other name")


def _of_anycast(document: Document, address: str, queues: list[Element]) -> Iterator[Section]:
    """Yield the policy of a queue that has options of its own."""
    for queue in queues[:1]:
        own = {
            option: document.given(queue, queue.attributes[name])
            for name, option in _QUEUE_OPTIONS.items()
            if name in queue.attributes
        }
        if own:
            yield {"queue": Given(address, document.place(queue)), **own}


def _of_multicast(
    document: Document, element: Element, address: str, queues: list[Element]
) -> Iterator[Section]:
    """Yield the composite that sends a topic's messages to the queues that keep them."""
    forwards: list[Section] = []
    for queue in queues:
        name = document.text(queue, queue.attributes.get("name", ""))
        forward: Section = {"queue": Given(name, document.place(queue))}
        selector = _filter(document, queue)
        if selector is not None:
            forward["selector"] = Given(selector, document.place(queue, "filter"))
        forwards.append(forward)
        document.ignore(queue, f"consumers name the queue {name}, not {address}::{name}")
    if forwards:
        place = document.place(element)
        topic = Given(address, place)
        yield {"topic": topic, "forwardTo": forwards, "forwardOnly": Given(False, place)}


def _read_old_queue(document: Document, element: Element, addresses: Addresses, kinds: _Kinds) -> None:
    """Read a queue in ``queues``, as HornetQ and the first versions of Artemis have them."""
    _check_queue(document, element, "queue")
    texts = {child.name: child.text for child in element.children}
    address = document.text(element, texts.get("address") or element.attributes.get("name", ""))
    name = address.removeprefix("jms.queue.")
    kinds.add(address, "queue")
    _check_anycast(document, address, [element])
    addresses.destinations.append(f"queue://{name}")
    if name != address:
        document.ignore(element, f"clients name the queue {name}, without jms.queue.")


# Diverts


def _read_divert(document: Document, element: Element, kinds: _Kinds) -> Section:
    texts = {child.name: child.text for child in element.children}
    for name in ("transformer", "transformer-class-name"):
        if name in texts:
            document.refuse(
                element, "its transformer is Java code, which would not change the messages", name
            )
    for child in element.children:
        if child.name not in _DIVERT:
            document.refuse(child, "unknown element of divert; correct it or remove it")
    address, target = (document.text(element, texts.get(name)) for name in ("address", "forwarding-address"))
    if not (address and target):
        raise document.error(element, "a divert needs an address and a forwarding-address; add them")
    place = document.place(element)
    kind = next(iter(kinds.of(address)), "queue")
    forward: Section = {_target_kind(texts, kinds.of(target), kind): Given(target, place)}
    selector = _filter(document, element)
    if selector is not None:
        forward["selector"] = Given(selector, document.place(element, "filter"))
    section: Section = {kind: Given(address, place), "forwardTo": [forward]}
    is_exclusive = texts.get("exclusive", "").lower() == "true"
    section["forwardOnly"] = Given(is_exclusive and selector is None, place)
    if is_exclusive and selector is not None:
        section["sendWhenNotMatched"] = Given(True, place)
    return section


_DIVERT = frozenset(
    ("address", "forwarding-address", "exclusive", "filter", "routing-name", "routing-type",
     "transformer", "transformer-class-name")
)  # fmt: skip


def _target_kind(texts: Mapping[str, str], known: list[str], source: str) -> str:
    """Return the kind of a divert's target: that of the file, else as its routing-type says."""
    wanted = texts.get("routing-type", "STRIP").lower()
    kind = _KIND_OF.get(wanted, source)
    return known[0] if len(known) == 1 else kind


def _check_diverts(document: Document, core: Element) -> None:
    """Refuse an exclusive divert beside another one: a message would be kept that it takes away."""
    elements = [*_children(core, "diverts", "divert")]
    exclusive = {
        text for element in elements if (text := _address(element)) is not None and _is_exclusive(element)
    }
    for address in exclusive:
        of_address = [element for element in elements if _address(element) == address]
        if len(of_address) > 1:
            text = f"{address} has an exclusive divert and others; jdbcstore cannot tell which comes first"
            document.refuse(of_address[1], f"{text}: leave one, or write a compositeQueue in TOML")


def _address(element: Element) -> str | None:
    return next((child.text for child in element.children if child.name == "address"), None)


def _is_exclusive(element: Element) -> bool:
    return any(child.name == "exclusive" and child.text.lower() == "true" for child in element.children)


# Address settings


@dataclass(slots=True)
class _Setting:
    """An address-setting: its pattern and its values."""

    element: Element
    pattern: str
    values: dict[str, Element]

    @property
    def specificity(self) -> tuple[int, int]:
        parts = self.pattern.split(".")
        return sum(part not in ("*", _EVERYTHING) for part in parts), len(parts)


def _read_settings(document: Document, core: Element, wildcards: Wildcards) -> Iterator[Section]:
    """Yield the policies: each setting with values of less specific ones, as in Artemis."""
    settings = []
    for element in _children(core, "address-settings", "address-setting"):
        match = document.text(element, element.attributes.get("match", ""))
        pattern = wildcards.pattern(element, match)
        values = {child.name: child for child in element.children}
        settings.append(_Setting(element, pattern, values))
    if not any(setting.pattern == _EVERYTHING for setting in settings):
        yield _policy(document, core, {})
    for setting in settings:
        for element in setting.values.values():
            _check_setting(document, element)
        wider = [other for other in settings if other is not setting and _covers(document, other, setting)]
        merged: dict[str, Element] = {}
        for level in (*sorted(wider, key=lambda other: other.specificity), setting):
            merged |= level.values
        policy = _policy(document, setting.element, merged)
        if setting.pattern == _EVERYTHING:
            yield {**policy, **_creation(document, merged, *_CREATED["queue"], *_CREATED["topic"])}
            continue
        for kind, names in _CREATED.items():
            where = Given(setting.pattern, document.place(setting.element))
            yield {kind: where, **policy, **_creation(document, merged, *names)}


def _covers(document: Document, wide: _Setting, narrow: _Setting) -> bool:
    try:
        first, second = (DestinationPattern(Destination.queue(setting.pattern)) for setting in (wide, narrow))
    except InvalidDestination as error:
        raise document.error(narrow.element, f"match is not an address: {error}") from error
    return first.covers(second)


def _check_setting(document: Document, element: Element) -> None:
    fate = FATES.get(("address-setting", element.name))
    if fate is not None:
        document.tell(element, fate, element.text)
    elif element.name not in _OBEYED:
        document.refuse(element, "unknown element of address-setting; correct it or remove it")


_OBEYED = frozenset((
    *_DIRECT, "dead-letter-address", "expiry-address", "max-delivery-attempts", "redelivery-delay",
    "redelivery-delay-multiplier", "redelivery-collision-avoidance-factor", "max-redelivery-delay",
    "max-size-bytes", "address-full-policy", "auto-create-queues", "auto-create-addresses",
    "auto-create-jms-queues", "auto-create-jms-topics", "auto-create-dead-letter-resources",
    "dead-letter-queue-prefix", "dead-letter-queue-suffix", "retroactive-message-count",
    "slow-consumer-threshold", "slow-consumer-threshold-measurement-unit", "slow-consumer-policy",
    "slow-consumer-check-period",
))  # fmt: skip


def _policy(document: Document, at: Element, values: Mapping[str, Element]) -> Section:
    place = document.place(at)
    section: Section = {}
    for name, option in _DIRECT.items():
        if name in values and values[name].text not in _NO_LIMIT:
            section[option] = document.given(values[name], values[name].text)
    section["deadLetterStrategy"] = _dead_letters(document, values, place)
    expiry = _text(document, values, "expiry-address")
    dead = _text(document, values, "dead-letter-address")
    if expiry and expiry != dead:
        section["expiryQueue"] = Given(expiry, document.place(values["expiry-address"]))
    section["redeliveryPolicy"] = _redelivery(document, values, place)
    section |= {**_limit(document, values), **_slow_consumers(document, values)}
    kept = _text(document, values, "retroactive-message-count")
    if kept not in ("", "0"):
        count = document.given(values["retroactive-message-count"], kept)
        kind = Given("fixedCountSubscriptionRecoveryPolicy", count.place)
        section["subscriptionRecoveryPolicy"] = {"type": kind, "maximumSize": count}
        section["alwaysRetroactive"] = Given(True, count.place)
    return section


def _slow_consumers(document: Document, values: Mapping[str, Element]) -> Section:
    """Return the strategy for consumers that acknowledge too slowly; none without a threshold."""
    threshold = _number(document, values, f"{_SLOW}threshold", -1)
    if threshold < 0:
        return {}
    unit = _text(document, values, f"{_SLOW}threshold-measurement-unit").upper() or "MESSAGES_PER_SECOND"
    policy = _text(document, values, f"{_SLOW}policy").upper() or "NOTIFY"
    for name, text, known in (
        ("threshold-measurement-unit", unit, [*_SECONDS]),
        ("policy", policy, ["KILL", "NOTIFY"]),
    ):
        if text not in known:
            message = f"{_SLOW}{name} must be one of {', '.join(known)}, not {text!r}"
            raise document.error(values[_SLOW + name], message)
    strategy: dict[str, tuple[str, object]] = {
        "type": ("threshold", SlowConsumerRateStrategy.type),
        "threshold": ("threshold", threshold / _SECONDS[unit]),
        "check_period": ("check-period", _number(document, values, f"{_SLOW}check-period", 5)),
        "abort_connection": ("policy", policy == "KILL"),
    }
    at = values[f"{_SLOW}threshold"]
    section: Section = {
        option: Given(value, document.place(values.get(_SLOW + name, at)))
        for option, (name, value) in strategy.items()
    }
    return {"slowConsumerStrategy": section}


_CREATED = {
    "queue": ("auto-create-queues", "auto-create-addresses", "auto-create-jms-queues"),
    "topic": ("auto-create-addresses", "auto-create-jms-topics"),
}
"""Settings by which clients may not make a queue, or a topic."""


def _creation(document: Document, values: Mapping[str, Element], *names: str) -> Section:
    for name in names:
        if _text(document, values, name).lower() == "false":
            return {"autoCreate": Given(False, document.place(values[name]))}
    return {}


def _text(document: Document, values: Mapping[str, Element], name: str) -> str:
    element = values.get(name)
    return "" if element is None else document.text(element, element.text)


def _dead_letters(document: Document, values: Mapping[str, Element], place: str) -> Section:
    """Return the dead-letter strategy: without an address, dead letters are dropped."""
    dead, expiry = _text(document, values, "dead-letter-address"), _text(document, values, "expiry-address")
    if not dead:
        return {"type": Given("discarding", place)}
    at = values["dead-letter-address"]
    strategy: Section = {
        "type": Given("sharedDeadLetterStrategy", document.place(at)),
        "processNonPersistent": Given(True, document.place(at)),
        "processExpired": Given(expiry == dead, document.place(at)),
    }
    if _text(document, values, "auto-create-dead-letter-resources").lower() == "true":
        strategy["type"] = Given("individualDeadLetterStrategy", document.place(at))
        prefix = _text(document, values, "dead-letter-queue-prefix") or "DLQ."
        suffix = _text(document, values, "dead-letter-queue-suffix")
        for kind in ("queue", "topic"):
            strategy[f"{kind}Prefix"] = Given(prefix, document.place(at))
            strategy[f"{kind}Suffix"] = Given(suffix, document.place(at))
        document.ignore(at, f"dead letters are in {prefix}NAME{suffix}, and not in an address {dead} as well")
    else:
        strategy["deadLetterQueue"] = Given(dead, document.place(at))
    return strategy


def _number(document: Document, values: Mapping[str, Element], name: str, default: float) -> float:
    text = _text(document, values, name)
    try:
        return float(text) if text else default
    except ValueError:
        raise document.error(values[name], f"{name} must be a number, not {text!r}") from None


def _redelivery(document: Document, values: Mapping[str, Element], place: str) -> Section:
    """Return the redelivery policy, with Artemis's defaults: ten deliveries, at once."""
    at = next(
        (values[name] for name in ("max-delivery-attempts", "redelivery-delay") if name in values), None
    )
    place = place if at is None else document.place(at)
    attempts = int(_number(document, values, "max-delivery-attempts", 10))
    delay = _number(document, values, "redelivery-delay", 0)
    factor = _number(document, values, "redelivery-delay-multiplier", 1)
    spread = _number(document, values, "redelivery-collision-avoidance-factor", 0)
    most = _number(document, values, "max-redelivery-delay", 10 * delay)
    given: dict[str, object] = {
        "maximumRedeliveries": attempts - 1 if attempts > 0 else -1,
        "initialRedeliveryDelay": delay,
        "redeliveryDelay": delay,
        "useExponentialBackOff": factor != 1,
        "backOffMultiplier": factor,
        "maximumRedeliveryDelay": most if most > 0 else None,
        "useCollisionAvoidance": spread > 0,
        "collisionAvoidancePercent": round(spread * 100),
        "countsReturned": True,
    }
    return {name: Given(value, place) for name, value in given.items() if value is not None}


def _limit(document: Document, values: Mapping[str, Element]) -> Section:
    """Return what happens when an address has as many bytes as it may have."""
    policy = _text(document, values, "address-full-policy").upper() or "PAGE"
    if policy not in _FULL_POLICIES:
        text = f"address-full-policy must be one of {', '.join(_FULL_POLICIES)}, not {policy!r}"
        raise document.error(values["address-full-policy"], text)
    size = _text(document, values, "max-size-bytes")
    count = _text(document, values, "max-size-messages")
    if policy != "PAGE" and count not in _NO_LIMIT:
        text = "an address would have any number of messages: set max-size-bytes"
        document.refuse(values["max-size-messages"], text)
    if size in _NO_LIMIT:
        return {}
    section: Section = {"memoryLimit": document.given(values["max-size-bytes"], size)}
    if policy == "PAGE":
        return section  # beyond it, messages are read from the store when they are needed
    place = document.place(values["address-full-policy"])
    section["pendingQueuePolicy"] = Given("vmQueueCursor", place)
    section["pendingSubscriberPolicy"] = Given("vmCursor", place)
    section["pendingDurableSubscriberPolicy"] = Given("vmDurableCursor", place)
    if policy == "FAIL":
        section["sendFailIfNoSpace"] = Given(True, place)
    elif policy == "DROP":
        section["sendDropIfNoSpace"] = Given(True, place)
    return section

"""``subscriptions``, ``subscribe`` and ``unsubscribe``."""

from __future__ import annotations

from typing import Any

import click

from jdbcstore import Store
from jdbcstore.cli.options import Command, DestinationType, SelectorType, Settings, destination_argument
from jdbcstore.cli.output import print_table, printable, write_json, write_line
from jdbcstore.message.destination import Destination
from jdbcstore.message.selector import Selector


def subscription_facts(store: Store, topic: Destination) -> list[dict[str, Any]]:
    """What is printed of each durable subscription of a topic."""
    messages = store.topic(topic)
    return [
        {
            "client_id": info.client_id,
            "subscription_name": info.subscription_name,
            "destination": str(info.destination),
            "subscribed_destination": str(info.subscribed_destination),
            "selector": info.selector,
            "pending": messages.subscription(info.client_id, info.subscription_name).message_count(),
        }
        for info in messages.subscriptions()
    ]


def print_subscriptions(facts: list[dict[str, Any]]) -> None:
    columns = {
        "client id": "left",
        "subscription": "left",
        "topic": "left",
        "subscribed to": "left",
        "selector": "left",
        "pending": "right",
    }
    print_table(
        "Durable subscriptions",
        columns,
        [tuple("" if value is None else str(value) for value in one.values()) for one in facts],
    )


@click.command(cls=Command)
@click.argument("topic", metavar="[DEST]", required=False, type=DestinationType())
@click.pass_obj
def subscriptions(settings: Settings, topic: Destination | None) -> None:
    """Show the durable subscriptions, of all topics or of one, and what they have not acknowledged."""
    with settings.open(read_only=True) as store:
        topics = [one for one in store.destinations() if one.is_topic] if topic is None else [_topic(topic)]
        found = [facts for one in topics for facts in subscription_facts(store, one)]
    if settings.json:
        for facts in found:
            write_json(facts)
    else:
        print_subscriptions(found)


def _named_subscription(function: Any) -> Any:
    for name in ("--subscription", "--client-id"):
        function = click.option(name, required=True, metavar="TEXT")(function)
    return destination_argument(function)


@click.command(cls=Command)
@_named_subscription
@click.option("--selector", type=SelectorType(), metavar="SQL", help="Which messages the broker delivers.")
@click.option("--retroactive", is_flag=True, help="Start at the first message still stored.")
@click.pass_obj
def subscribe(
    settings: Settings,
    destination: Destination,
    client_id: str,
    subscription: str,
    selector: Selector | None,
    retroactive: bool,
) -> None:
    """Create a durable subscription to a topic, or find it there."""
    with settings.open() as store:
        topic = store.topic(_topic(destination))
        text = None if selector is None else selector.text
        made = topic.subscribe(client_id, subscription, selector=text, retroactive=retroactive)
        pending = made.message_count()
    _tell(settings, "subscribed", destination, client_id, subscription, {"pending": pending})


@click.command(cls=Command)
@_named_subscription
@click.pass_obj
def unsubscribe(settings: Settings, destination: Destination, client_id: str, subscription: str) -> None:
    """Delete a durable subscription."""
    with settings.open(must_exist=True) as store:
        store.topic(_topic(destination)).unsubscribe(client_id, subscription)
    _tell(settings, "unsubscribed", destination, client_id, subscription, {})


def _topic(destination: Destination) -> Destination:
    if not destination.is_topic:
        raise click.UsageError(f"{destination} is a queue; write topic://NAME")
    return destination


def _tell(
    settings: Settings,
    what: str,
    destination: Destination,
    client_id: str,
    subscription: str,
    more: dict[str, object],
) -> None:
    if settings.json:
        facts = {
            "client_id": client_id,
            "subscription_name": subscription,
            "destination": str(destination),
        }
        write_json({**facts, **more})
    else:
        write_line(printable(f"{what} {subscription} of client {client_id} on {destination}"))

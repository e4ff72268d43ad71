"""``subscriptions``, ``subscribe`` and ``unsubscribe``: durable subscriptions of topics."""

from __future__ import annotations

from typing import Any

import click

from jdbcstore.abc import Store
from jdbcstore.cli.options import DESTINATION, SELECTOR, all_of, destination_argument
from jdbcstore.cli.output import print_table, printable
from jdbcstore.cli.remote import RemoteBroker
from jdbcstore.cli.settings import CliCommand, Settings
from jdbcstore.message.destination import Destination
from jdbcstore.message.selector import Selector


def subscription_facts(store: Store, topic: Destination) -> list[dict[str, Any]]:
    """Describe the durable subscriptions of a topic."""
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


def add_activity(facts: list[dict[str, Any]], broker: RemoteBroker | None) -> list[dict[str, Any]]:
    """Add whether each subscription has a consumer; only a broker knows that."""
    views = [] if broker is None else broker.call("subscriptions")
    active = {(view["client_id"], view["name"]): view["is_active"] for view in views}
    return [{**fact, "active": active.get((fact["client_id"], fact["subscription_name"]))} for fact in facts]


def print_subscriptions(facts: list[dict[str, Any]]) -> None:
    names: tuple[str, ...] = (
        "client id",
        "subscription",
        "topic",
        "subscribed to",
        "selector",
        "pending",
        "active",
    )
    if all(fact["active"] is None for fact in facts):
        names = names[:-1]
    shown = [{**fact, "active": "yes" if fact["active"] else "no"} for fact in facts]
    rows = [
        tuple("" if each is None else str(each) for each in fact.values())[: len(names)] for fact in shown
    ]
    print_table("Durable subscriptions", names, rows, right=("pending",))


@click.command(cls=CliCommand)
@click.argument("topic", metavar="[DEST]", required=False, type=DESTINATION)
@click.pass_obj
def subscriptions(settings: Settings, topic: Destination | None) -> None:
    """List durable subscriptions and their pending messages, for one topic or for all.

    If a broker with --health is running, the list shows whether each has a consumer.
    """
    with settings.open(read_only=True) as store:
        topics = (
            [destination for destination in store.destinations() if destination.is_topic]
            if topic is None
            else [_topic(topic)]
        )
        facts_of_all = [facts for destination in topics for facts in subscription_facts(store, destination)]
    facts_of_all = add_activity(facts_of_all, settings.broker_to_read())
    settings.print_each(facts_of_all, lambda: print_subscriptions(facts_of_all))


_named_subscription = all_of(
    destination_argument,
    click.option("--client-id", required=True, metavar="TEXT"),
    click.option("--subscription", required=True, metavar="TEXT"),
)


@click.command(cls=CliCommand)
@_named_subscription
@click.option("--selector", type=SELECTOR, metavar="TEXT",
              help="Messages that a broker delivers to the subscription.")  # fmt: skip
@click.option("--retroactive", is_flag=True, help="Start at the first message that is still stored.")
@click.pass_obj
def subscribe(
    settings: Settings,
    destination: Destination,
    client_id: str,
    subscription: str,
    selector: Selector | None,
    retroactive: bool,
) -> None:
    """Create a durable subscription to a topic, unless it exists.

    If a broker with --health is running, it creates the subscription.
    """
    text, topic = None if selector is None else selector.text, _topic(destination)
    with settings.store_or_broker() as place:
        how: dict[str, Any] = {"selector": text, "retroactive": retroactive}
        if isinstance(place, RemoteBroker):
            pending = place.call("subscribe", client_id, subscription, topic=topic, **how)["pending"]
        else:
            pending = place.topic(topic).subscribe(client_id, subscription, **how).message_count()
    _report(settings, "subscribed", destination, client_id, subscription, pending=pending)


@click.command(cls=CliCommand)
@_named_subscription
@click.pass_obj
def unsubscribe(settings: Settings, destination: Destination, client_id: str, subscription: str) -> None:
    """Delete a durable subscription.

    If a broker with --health is running, it deletes the subscription, which must not have a consumer.
    """
    topic = _topic(destination)
    with settings.store_or_broker(must_exist=True) as place:
        if isinstance(place, RemoteBroker):
            place.call("unsubscribe", client_id, subscription)
        else:
            place.topic(topic).unsubscribe(client_id, subscription)
    _report(settings, "unsubscribed", destination, client_id, subscription)


def _topic(destination: Destination) -> Destination:
    if not destination.is_topic:
        raise click.UsageError(f"{destination} is a queue; write topic://NAME")
    return destination


def _report(
    settings: Settings, done: str, topic: Destination, client_id: str, subscription: str, **more: object
) -> None:
    facts = {"client_id": client_id, "subscription_name": subscription, "destination": str(topic), **more}
    settings.print(facts, printable(f"{done} {subscription} of client {client_id} on {topic}"))

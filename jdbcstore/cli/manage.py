"""``manage``: operations of a running broker."""

from __future__ import annotations

from typing import Any

import click

from jdbcstore.broker.operations import OperationOutcome
from jdbcstore.cli.options import (
    COUNT,
    DESTINATION,
    SELECTOR,
    TARGET,
    all_of,
    check_chosen,
    destination_argument,
    every_option,
)
from jdbcstore.cli.output import counted, local_time, note, print_table, printable
from jdbcstore.cli.readings import alarm_line
from jdbcstore.cli.remote import NO_BROKER, RemoteBroker
from jdbcstore.cli.settings import BrokerCommand, Settings
from jdbcstore.errors import NotMaster
from jdbcstore.message.destination import Destination
from jdbcstore.message.selector import Selector


@click.group()
def manage() -> None:
    """Control the running broker.

    The broker must have been started with --health. If it has users, set JDBCSTORE_BROKER_LOGIN to
    USER:PASSWORD.
    """


def _broker(settings: Settings) -> RemoteBroker:
    broker = settings.broker()
    if broker is None:
        raise NotMaster(NO_BROKER)
    return broker


class _Queue(click.ParamType[Destination]):
    name = "queue"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Destination:
        destination = DESTINATION.convert(value, param, ctx)
        if destination.is_topic:
            self.fail(f"{destination} is a topic; name a queue", param, ctx)
        return destination


_queue_argument = click.argument("queue", metavar="QUEUE", type=_Queue())
_choosing = all_of(
    _queue_argument,
    click.option("--id", "message_ids", multiple=True, metavar="ID",
                 help="Only the message with this JMSMessageID. Repeatable."),
    click.option("--selector", type=SELECTOR, metavar="TEXT",
                 help="Only messages that match this JMS selector."),
    click.option("--limit", type=COUNT, metavar="N",
                 help="At most N messages; all by default."),
)  # fmt: skip


def _chosen(
    message_ids: tuple[str, ...], selector: Selector | None, limit: int | None, every: bool = False
) -> dict[str, Any]:
    check_chosen(message_ids, selector, limit, every=every)
    text = None if selector is None else selector.text
    return {"ids": [*message_ids] or None, "selector": text, "limit": limit}


@manage.command(cls=BrokerCommand)
@_queue_argument
@click.pass_obj
def pause(settings: Settings, queue: Destination) -> None:
    """Pause deliveries of a queue. Producers can still send."""
    _broker(settings).call("pause", queue)
    settings.print({"queue": str(queue), "is_paused": True}, f"paused {printable(str(queue))}")


@manage.command(cls=BrokerCommand)
@_queue_argument
@click.pass_obj
def resume(settings: Settings, queue: Destination) -> None:
    """Resume deliveries of a queue."""
    _broker(settings).call("resume", queue)
    settings.print({"queue": str(queue), "is_paused": False}, f"resumed {printable(str(queue))}")


@manage.command(cls=BrokerCommand)
@_choosing
@every_option
@click.option("--to", required=True, type=TARGET, metavar="DEST", help="Destination to move them to.")
@click.pass_obj
def move(settings: Settings, /, queue: Destination, to: Destination, **given: Any) -> None:
    """Move messages to another destination.

    Each message is moved in a transaction. Unacknowledged messages stay.
    """
    acted = _broker(settings).act("move", queue, to=to, **_chosen(**given))
    text = f"moved {counted(acted.count)} from {printable(str(queue))} to {printable(str(to))}"
    _report(settings, "moved", acted, text)


def _report(settings: Settings, done: str, acted: OperationOutcome, text: str) -> None:
    settings.print({done: acted.count, "left": acted.left}, text)
    if acted.is_stopped:
        note("an administrator stopped the operation before its end")
    if acted.left:
        note(f"{counted(acted.left)} left: consumers or transactions have them")


@manage.command(cls=BrokerCommand)
@_choosing
@every_option
@click.option("--to", required=True, type=TARGET, metavar="DEST", help="Destination to send the copies to.")
@click.pass_obj
def copy(settings: Settings, /, queue: Destination, to: Destination, **given: Any) -> None:
    """Send copies of messages to another destination."""
    count = _broker(settings).act("copy", queue, to=to, **_chosen(**given)).count
    settings.print(
        {"copied": count}, f"copied {counted(count)} from {printable(str(queue))} to {printable(str(to))}"
    )


@manage.command(cls=BrokerCommand)
@_choosing
@click.pass_obj
def remove(settings: Settings, /, queue: Destination, **given: Any) -> None:
    """Remove messages by ID, selector or number.

    Unacknowledged messages stay. To remove all messages, use "jdbcstore purge".
    """
    if not any(given.values()):
        raise click.UsageError("name --id, --selector or --limit; to remove all, use jdbcstore purge")
    acted = _broker(settings).act("remove", queue, **_chosen(**given))
    _report(settings, "removed", acted, f"removed {counted(acted.count)} from {printable(str(queue))}")


@manage.command(cls=BrokerCommand)
@_choosing
@every_option
@click.option("--priority", type=click.IntRange(0, 9), metavar="N", help="The new priority, 0 to 9.")
@click.option("--ttl", type=click.IntRange(min=0), metavar="SECONDS",
              help="Expire after so many seconds; 0 is never.")  # fmt: skip
@click.pass_obj
def change(
    settings: Settings, /, queue: Destination, priority: int | None, ttl: int | None, **given: Any
) -> None:
    """Change the priority or expiration of messages.

    Each message is replaced by a new one at the end of the queue. Unacknowledged messages stay unchanged.
    """
    fields = {"priority": priority, "ttl_ms": None if ttl is None else 1000 * ttl, **_chosen(**given)}
    if priority is None and ttl is None:
        raise click.UsageError("nothing to change; give --priority or --ttl")
    acted = _broker(settings).act("change", queue, **fields)
    _report(settings, "changed", acted, f"changed {counted(acted.count)} of {printable(str(queue))}")


@manage.command(cls=BrokerCommand)
@destination_argument
@click.pass_obj
def delete(settings: Settings, destination: Destination) -> None:
    """Delete a queue or topic.

    A queue is deleted with its messages, a topic with its durable subscriptions. It must not have consumers.
    """
    acted = OperationOutcome(**_broker(settings).call("delete", destination))
    text = f"deleted {printable(str(destination))} with {counted(acted.count)}"
    settings.print({"deleted": str(destination), "removed": acted.count, "left": acted.left}, text)
    if acted.left:
        note(
            f"{counted(acted.left)} left, in a new destination of the same name, because producers still send"
        )


@manage.command("reset-counters", cls=BrokerCommand)
@click.argument("destination", metavar="[DEST]", required=False, type=DESTINATION)
@click.pass_obj
def reset_counters(settings: Settings, destination: Destination | None) -> None:
    """Reset the counters of DEST, or of all destinations. Prometheus metrics are not reset."""
    broker = _broker(settings)
    broker.call("reset_all") if destination is None else broker.call("reset", destination)
    name = "all" if destination is None else str(destination)
    settings.print({"reset": name}, f"reset the counters of {printable(name)}")


@manage.command(cls=BrokerCommand)
@click.pass_obj
def connections(settings: Settings) -> None:
    """List connected clients."""
    connections = _broker(settings).call("connections")
    names = ("id", "client id", "user", "peer", "protocol", "consumers", "in flight")
    keys = ("id", "client_id", "user", "peer", "protocol", "consumers", "in_flight")
    rows = [
        tuple("" if connection[key] is None else str(connection[key]) for key in keys)
        for connection in connections
    ]
    settings.print_each(connections, lambda: print_table("Connections", names, rows, right=names[-2:]))


@manage.command(cls=BrokerCommand)
@click.pass_obj
def operations(settings: Settings) -> None:
    """List running and recently finished operations."""
    operations = _broker(settings).call("operations")
    names = ("id", "operation", "destination", "user", "began", "looked at", "of", "done", "state")
    rows = [
        (
            operation["id"],
            operation["operation"],
            *(printable(operation[key]) for key in ("destination", "user")),
            local_time(operation["began_ms"]),
            *("-" if operation[key] is None else str(operation[key]) for key in ("seen", "size", "count")),
            printable(_state(operation)),
        )
        for operation in operations
    ]
    settings.print_each(operations, lambda: print_table("Operations", names, rows, right=names[5:8]))


def _state(operation: dict[str, Any]) -> str:
    if operation["error"] is not None:
        return f"failed: {operation['error']}"
    if operation["ended_ms"] is None:
        return "stopping" if operation["is_stopped"] else "under way"
    return "stopped" if operation["is_stopped"] else "done"


@manage.command(cls=BrokerCommand)
@destination_argument
@click.pass_obj
def create(settings: Settings, destination: Destination) -> None:
    """Create a queue or topic.

    It is removed again after a minute without messages or clients.
    """
    _broker(settings).call("create", destination)
    settings.print({"created": str(destination)}, f"created {printable(str(destination))}")


@manage.command(cls=BrokerCommand)
@click.pass_obj
def scheduled(settings: Settings) -> None:
    """List scheduled messages, the next first, at most 1,000."""
    page = _broker(settings).call("scheduled", limit=1000)
    rows = [
        (
            *(local_time(message[key]) for key in ("at_ms", "last_ms")),
            *(printable(str(message[key])) for key in ("destination", "repeats", "id")),
        )
        for message in page["scheduled"]
    ]
    names = ("due", "last sent", "to", "repeats", "id")
    settings.print(page, lambda: print_table("Scheduled messages", names, rows, right=names[3:4]))


@manage.command(cls=BrokerCommand)
@click.argument("message", metavar="ID")
@click.pass_obj
def cancel(settings: Settings, message: str) -> None:
    """Cancel a scheduled message and its repetitions."""
    acted = OperationOutcome(**_broker(settings).call("cancel_scheduled", message))
    settings.print({"cancelled": acted.count}, f"cancelled {counted(acted.count)}")


@manage.command("send-now", cls=BrokerCommand)
@click.argument("message", metavar="ID")
@click.pass_obj
def send_now(settings: Settings, message: str) -> None:
    """Send a scheduled message immediately."""
    acted = OperationOutcome(**_broker(settings).call("send_scheduled", message))
    settings.print({"sent": acted.count}, f"sending {counted(acted.count)} now")


@manage.command(cls=BrokerCommand)
@click.option("--search", metavar="TEXT", help="Only lines that contain this text.")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="Lines.")
@click.pass_obj
def log(settings: Settings, search: str | None, limit: int) -> None:
    """Show the last log and audit lines, newest first."""
    lines = _broker(settings).call("log", search=search, limit=limit)
    rows: list[tuple[str, ...]] = [
        (local_time(line["time_ms"]), line["level"], printable(line["logger"]), printable(line["text"]))
        for line in lines
    ]
    settings.print_each(lines, lambda: print_table("Log", ("time", "level", "of", "line"), rows))


@manage.command(cls=BrokerCommand)
@click.pass_obj
def users(settings: Settings) -> None:
    """List users with their roles and permissions."""
    users = _broker(settings).call("users")
    names = ("name", "role", "read", "write", "create")
    rows: list[tuple[str, ...]] = [
        (
            printable(user["name"]),
            user["role"] or "-",
            *("-" if user[key] is None else printable(", ".join(user[key])) for key in names[2:]),
        )
        for user in users
    ]
    settings.print_each(users, lambda: print_table("Users", names, rows))


@manage.command(cls=BrokerCommand)
@click.pass_obj
def configuration(settings: Settings) -> None:
    """Show the broker's options, without secrets."""
    page = _broker(settings).call("configuration")
    names = ("option", "value", "source")
    rows = [
        tuple("-" if option[key] is None else printable(str(option[key])) for key in names)
        for option in page["options"]
    ]
    settings.print(page, lambda: print_table("Options", names, rows))


@manage.command(cls=BrokerCommand)
@click.pass_obj
def alarms(settings: Settings) -> None:
    """List problems of the broker, with advice."""
    alarms = _broker(settings).call("alarms")
    rows: list[tuple[str, ...]] = [(alarm["level"], alarm_line(alarm)) for alarm in alarms]
    settings.print_each(alarms, lambda: print_table("Alarms", ("level", "alarm"), rows))


@manage.command(cls=BrokerCommand)
@click.argument("operation", metavar="ID")
@click.pass_obj
def stop(settings: Settings, operation: str) -> None:
    """Stop a running operation. Finished work is kept."""
    _broker(settings).call("stop_operation", operation)
    settings.print({"stopped": operation}, f"stopping the operation {printable(operation)}")


@manage.command(cls=BrokerCommand)
@click.argument("connection", metavar="ID")
@click.pass_obj
def drop(settings: Settings, connection: str) -> None:
    """Close the connection of a client. Its unacknowledged messages go to other consumers."""
    _broker(settings).call("drop", connection)
    settings.print({"dropped": connection}, f"dropped {printable(connection)}")


@manage.command(cls=BrokerCommand)
@click.pass_obj
def checkpoint(settings: Settings) -> None:
    """Write the journal's contents to the database."""
    _broker(settings).call("checkpoint")
    settings.print({"checkpoint": True}, "the contents of the journal are in the database")


@manage.command("hand-over", cls=BrokerCommand)
@click.pass_obj
def hand_over(settings: Settings) -> None:
    """Make another broker the master.

    If no other broker waits for the lock, there is no service for 15 seconds.
    """
    _broker(settings).call("hand_over")
    settings.print({"handed_over": True}, "the lock is being released; wait with jdbcstore wait-master")

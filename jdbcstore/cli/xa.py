"""``xa list``, ``xa commit`` and ``xa rollback``: prepared XA transactions, completed manually."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import click

from jdbcstore.abc import PreparedWrites, XAResource
from jdbcstore.cli.options import Parsed
from jdbcstore.cli.output import print_table
from jdbcstore.cli.remote import RemoteBroker
from jdbcstore.cli.settings import CliCommand, Settings
from jdbcstore.message.ids import XATransactionId

_XID = Parsed("xid", XATransactionId.parse)
"""An XA transaction id, as in ``XID:[86,globalId=01020304,branchId=0902]``."""


@click.group()
def xa() -> None:
    """List prepared XA transactions, and commit or roll them back manually.

    A transaction manager completes its prepared transactions, even after a restart. Complete a transaction
    manually only if its manager will never return, because the manager may have decided differently on other
    branches.
    """


@xa.command("list", cls=CliCommand)
@click.pass_obj
def list_(settings: Settings) -> None:
    """List prepared transactions with their added and acknowledged messages.

    If a broker with --health is running, the list includes transactions that are only in its journal.
    """
    broker = settings.broker_to_read()
    if broker is not None:
        transactions = [
            _facts(XATransactionId.parse(transaction["xid"]), transaction["writes"])
            for transaction in broker.call("transactions")
        ]
    else:
        with settings.open(read_only=True) as store:
            transactions = [
                _facts(transaction.xid, [*map(_writes, transaction.writes)])
                for transaction in store.xa.recover()
            ]
    columns = ("xid", "destination", "adds", "acknowledges", "for")
    rows = [row for transaction in transactions for row in _rows(transaction)]
    settings.print_each(
        transactions, lambda: print_table("Prepared XA transactions", columns, rows, right=columns[2:4])
    )


def _facts(xid: XATransactionId, writes: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "xid": str(xid),
        "format_id": xid.format_id,
        "global_transaction_id": xid.global_transaction_id.hex(),
        "branch_qualifier": xid.branch_qualifier.hex(),
        "writes": writes,
    }


def _writes(writes: PreparedWrites) -> dict[str, Any]:
    return {**asdict(writes), "destination": str(writes.destination)}


def _rows(facts: dict[str, Any]) -> list[tuple[str, ...]]:
    return [
        (
            facts["xid"],
            fact["destination"],
            str(fact["added"]),
            str(fact["acknowledged"]),
            "" if fact["client_id"] is None else f"{fact['subscription_name']} of client {fact['client_id']}",
        )
        for fact in facts["writes"]
    ]


@xa.command(cls=CliCommand)
@click.argument("xid", metavar="XID", type=_XID)
@click.pass_obj
def commit(settings: Settings, xid: XATransactionId) -> None:
    """Commit a prepared transaction.

    If a broker with --health is running, it performs the commit.
    """
    _decide(settings, xid, "committed", lambda resource: resource.commit(xid))


@xa.command(cls=CliCommand)
@click.argument("xid", metavar="XID", type=_XID)
@click.pass_obj
def rollback(settings: Settings, xid: XATransactionId) -> None:
    """Roll back a prepared transaction.

    The messages that it acknowledges are delivered again. If a broker with --health is running, it performs
    the rollback.
    """
    _decide(settings, xid, "rolled back", lambda resource: resource.rollback(xid))


def _decide(
    settings: Settings, xid: XATransactionId, outcome: str, decide: Callable[[XAResource], None]
) -> None:
    with settings.store_or_broker(must_exist=True) as place:
        if isinstance(place, RemoteBroker):
            place.call("commit" if outcome == "committed" else "roll_back", xid)
        else:
            decide(place.xa)
    settings.print({"xid": str(xid), "outcome": outcome}, f"{outcome} {xid}")

"""``xa list``, ``xa commit`` and ``xa rollback``."""

from __future__ import annotations

from typing import Any

import click

from jdbcstore import PreparedTransaction, XATransactionId
from jdbcstore.cli.options import Command, Settings
from jdbcstore.cli.output import print_table, write_json, write_line
from jdbcstore.errors import TransactionError


class XidType(click.ParamType[XATransactionId]):
    """``XID:[86,globalId=01020304,branchId=0902]``."""

    name = "xid"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> XATransactionId:
        if isinstance(value, XATransactionId):
            return value
        try:
            return XATransactionId.parse(value)
        except TransactionError as error:
            self.fail(str(error), param, ctx)


@click.group()
def xa() -> None:
    """Show prepared XA transactions, and decide them by hand.

    A transaction manager decides what it has prepared, also after a restart. By hand, decide only what
    it will never come back for: it may have committed the other branches, or rolled them back.
    """


@xa.command("list", cls=Command)
@click.pass_obj
def list_(settings: Settings) -> None:
    """Show every prepared transaction, and what it would do."""
    with settings.open(read_only=True) as store:
        found = store.xa.recover()
    if settings.json:
        for transaction in found:
            write_json(_facts(transaction))
        return
    columns = {"xid": "left", "destination": "left", "adds": "right", "acknowledges": "right", "for": "left"}
    print_table("Prepared XA transactions", columns, [row for one in found for row in _rows(one)])


def _facts(transaction: PreparedTransaction) -> dict[str, Any]:
    return {
        "xid": str(transaction.xid),
        "format_id": transaction.xid.format_id,
        "global_transaction_id": transaction.xid.global_transaction_id.hex(),
        "branch_qualifier": transaction.xid.branch_qualifier.hex(),
        "writes": [
            {
                "destination": str(one.destination),
                "added": one.added,
                "acknowledged": one.acknowledged,
                "client_id": one.client_id,
                "subscription_name": one.subscription_name,
            }
            for one in transaction.writes
        ],
    }


def _rows(transaction: PreparedTransaction) -> list[tuple[str, ...]]:
    xid = str(transaction.xid)
    return [
        (
            xid,
            str(one.destination),
            str(one.added),
            str(one.acknowledged),
            "" if one.client_id is None else f"{one.subscription_name} of client {one.client_id}",
        )
        for one in transaction.writes
    ]


@xa.command(cls=Command)
@click.argument("xid", metavar="XID", type=XidType())
@click.pass_obj
def commit(settings: Settings, xid: XATransactionId) -> None:
    """Do what a prepared transaction holds."""
    with settings.open(must_exist=True) as store:
        store.xa.commit(xid)
    _tell(settings, xid, "committed")


@xa.command(cls=Command)
@click.argument("xid", metavar="XID", type=XidType())
@click.pass_obj
def rollback(settings: Settings, xid: XATransactionId) -> None:
    """Drop what a prepared transaction adds, and give back what it takes."""
    with settings.open(must_exist=True) as store:
        store.xa.rollback(xid)
    _tell(settings, xid, "rolled back")


def _tell(settings: Settings, xid: XATransactionId, outcome: str) -> None:
    if settings.json:
        write_json({"xid": str(xid), "outcome": outcome})
    else:
        write_line(f"{outcome} {xid}")

"""The stream of a journal in ``status``, from its servers, the broker and the database."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from jdbcstore.cli.output import counted, duration, note, print_table, printable, size, write_line
from jdbcstore.errors import StoreError

if TYPE_CHECKING:
    from jdbcstore import JdbcStore
    from jdbcstore.cli.remote import RemoteBroker
    from jdbcstore.config.journal import JournalConfig


def stream_facts(journal: JournalConfig, store: JdbcStore | None) -> dict[str, Any]:
    """Return the state of a journal's stream, and the lag of the database if there is one.

    :raises ConfigurationError: the configuration is wrong, so no server can be asked
    """
    from jdbcstore.journal.logs import health, stream_contents
    from jdbcstore.stores.journaled.recovery import known_of

    position: dict[str, Any] = dict.fromkeys(("last_record", "applied", "lag_records", "lag_bytes"))
    state = health(journal)
    facts = {} if state is None else asdict(state)
    if store is None or state is None or state.problem is not None:
        return facts | position
    try:
        with stream_contents(journal) as contents:
            known = known_of(store, contents.journal)
            applied = 0 if known is None else known.applied
            position = {
                "last_record": contents.last_number,
                "applied": applied,
                "lag_records": max(contents.last_number - applied, 0),
                "lag_bytes": contents.size_after(applied),
            }
    except StoreError as error:
        note(f"the journal cannot be read: {error}")
        return facts | position
    if (position["applied"] or 0) > (position["last_record"] or 0):
        facts |= {
            "problem": f"it ends with record {position['last_record']}, and the database has applied it up to"
            f" record {position['applied']}: it was replaced, or has lost its end; run jdbcstore journal"
            " check",
            "is_unsafe": True,
        }
    return facts | position


def add_broker(facts: dict[str, Any], broker: RemoteBroker) -> None:
    """Replace numbers by the master's, which has records in memory that are not in the database yet."""
    state = broker.call("journal")
    if state is not None:
        facts |= {
            "last_record": state["last_record"],
            "applied": state["applied"],
            "lag_records": state["last_record"] - state["applied"],
            "lag_bytes": state["pending_bytes"],
        }


def print_stream(facts: dict[str, Any]) -> None:
    """Print the state of a stream in a few lines."""
    write_line(f"stream   {printable(facts['place'])}")
    if facts["problem"] is not None:
        what = "it may lose acknowledged messages" if facts["is_unsafe"] else "it cannot be written"
        write_line(f"         {what}: {printable(facts['problem'])}")
    if facts["present"]:
        led = "" if facts["leader"] is None else f", led by {printable(facts['leader'])}"
        led += f", not {printable(', '.join(facts['behind']))}" if facts["behind"] else ""
        write_line(
            f"         {facts['current']} of {facts['present']} replicas are current{led}; "
            f"{facts['replicas']} are configured; {facts['sync']}"
        )
        limit = "" if facts["limit"] is None else f" of {size(facts['limit'])}"
        write_line(
            f"         {size(facts['size'])}{limit} in {counted(facts['messages'], 'message')} of NATS"
        )
    if facts["last_record"] is not None:
        lag = f"{counted(facts['lag_records'], 'record')}, {size(facts['lag_bytes'])}"
        write_line(
            f"journal  up to record {facts['last_record']:,}; the database up to {facts['applied']:,}, and"
            f" lacks {lag}"
        )
    if facts["members"]:
        rows: list[tuple[str, ...]] = [
            (fact["name"], fact["role"], f"{fact['applied']:,}", f"{fact['lag']:,}", _said(fact))
            for fact in facts["members"]
        ]
        names = ("broker", "role", "applied", "lag", "")
        print_table("Brokers with databases of their own", names, rows, right=("applied", "lag"))


def _said(member: dict[str, Any]) -> str:
    if member["trouble"]:
        return str(member["trouble"])
    return "" if member["is_alive"] else f"silent for {duration(member['silent'])}"

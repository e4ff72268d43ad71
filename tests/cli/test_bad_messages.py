"""Bad messages before the commands that read: each is shown, or named, and the next one is, too."""

from __future__ import annotations

import json

import pytest

from jdbcstore import Destination, Message, MessageId
from jdbcstore.cli.exit_codes import ExitCode
from jdbcstore.stores.claims import Claims
from tests.support import bad_messages
from tests.support.cli.command_line import CommandLine
from tests.support.databases import Database

pytestmark = pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")


@pytest.mark.whole("postgresql")
def test_commands_that_read(cli: CommandLine, database: Database) -> None:
    with Claims(database.url) as claims:
        queue = claims.queue("ActiveMQ.DLQ")
        queue.flow.share()
        for case in bad_messages.CASES:
            bad_messages.add(claims, database, "ActiveMQ.DLQ", case)
        good = Message("good", message_id=MessageId.parse("ID:good:1:1:1"))
        queue.add(good.replace(original_destination=Destination.queue("ORDERS")))
        queue.claim()  # so that they are filed under their keys
    well = {ExitCode.DONE, ExitCode.CORRUPT}
    for options in ((), ("--json",)):
        for command in (("browse", "ActiveMQ.DLQ"), ("browse", "ActiveMQ.DLQ", "--hex"), ("dlq", "list")):
            shown = cli.run(*command, *options)
            assert shown.code in well, shown.err
            assert "good" in shown.out
        for others in (("status",), ("flow", "list"), ("top", "--once"), ("doctor",)):
            assert cli.run(*others, *options).code in well
    [status] = json.loads(cli("status", "--json").out)["claims"]
    assert status["keys"]
    retried = cli.run("dlq", "retry", "--all", "--json")
    assert retried.code == ExitCode.CORRUPT
    assert retried.json["retried"] >= 1
    consumed = cli.run("consume", "ORDERS", "--count", "99", "--json")
    assert consumed.code in well, consumed.err
    assert consumed.lines[-1]["body"] == "good"
    consumed = cli.run("consume", "ActiveMQ.DLQ", "--count", "99", "--json")
    assert consumed.code in well, consumed.err
    assert cli.run("dlq", "purge", "--all").code in well

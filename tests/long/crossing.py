"""Requests that must change nothing, by hand:

    python -m tests.long.crossing --count 100000 --seed 7

Each change of the management, by each role, with each content type, from each origin, to a broker process. At
the end its queues are as they were, and its audit log has no operation that was done.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from pathlib import Path

import click

from jdbcstore.broker.security import hash_password
from jdbcstore.config.broker import Address
from jdbcstore.config.users import ROLES, write_user
from tests.support.broker.api import ApiClient, queue
from tests.support.broker.crossing import PASSWORD, cross
from tests.support.broker.programs import BrokerProcess
from tests.support.ports import free_port

_AT_ONCE = 5_000


@click.command(help=__doc__)
@click.option("--count", default=100_000, show_default=True)
@click.option("--seed", default=7, show_default=True)
@click.option("--wrong", default=0.01, show_default=True, help="The part that has a wrong password.")
def main(count: int, seed: int, wrong: float) -> None:
    folder, port = Path(tempfile.mkdtemp(prefix="jdbcstore-crossing-")), free_port()
    users = folder / "users.toml"
    for role in ROLES:
        write_user(users, role, hash_password(PASSWORD), role=role)
    config = folder / "mq.toml"
    config.write_text(f'[broker]\nusers_file = "{users}"\n')
    options = ("--url", f"sqlite:///{folder}/mq.db", "--health", f"127.0.0.1:{port}", "--config", str(config))
    with BrokerProcess(folder, *options) as process:
        process.ready()
        api = ApiClient(Address("127.0.0.1", port), ("manage", PASSWORD))
        for number in range(100):
            api.post(queue("ORDERS", "messages"), body=str(number))
        statuses: Counter[int] = Counter()
        began = time.monotonic()
        for number in range(0, count, _AT_ONCE):
            statuses += cross(api.address, seed + number, min(_AT_ONCE, count - number), wrong=wrong)
            click.echo(f"{statuses.total()} requests in {time.monotonic() - began:.0f} s: {dict(statuses)}")
        [only] = api.get("/api/destinations")["destinations"]
        assert (only["name"], only["size"], only["is_paused"]) == ("queue://ORDERS", 100, False), only
    lines = [json.loads(line) for line in process.log.read_text().splitlines() if line.startswith("{")]
    done = Counter(one["operation"] for one in lines if "error" not in one)
    refused = Counter(one["request"] for one in lines if one["operation"] == "refused")
    click.echo(f"audited: {dict(done)} done, {refused.total()} refused, {refused['login']} of them logins")
    assert done == {"send": 100}
    assert refused["login"]


if __name__ == "__main__":
    main()

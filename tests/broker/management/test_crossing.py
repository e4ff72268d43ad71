"""Requests of pages of other sites, and of users who may not: nothing changes."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from jdbcstore.broker.management.audit import AUDIT_LOG
from jdbcstore.broker.security import hash_password
from jdbcstore.config.users import ROLES, write_user
from tests.support.broker.api import ApiClient, queue
from tests.support.broker.console import console_of
from tests.support.broker.crossing import PASSWORD, cross


def test_nothing_changes_without_a_token_or_a_json_type(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    users = tmp_path / "users.toml"
    for role in ROLES:
        write_user(users, role, hash_password(PASSWORD), role=role)
    with console_of(f"sqlite:///{tmp_path}/mq.db", users_file=str(users)) as (console, _):
        api = ApiClient(console.api.address, ("manage", PASSWORD))
        for number in range(3):
            api.post(queue("ORDERS", "messages"), body=str(number))
        with caplog.at_level(logging.INFO, AUDIT_LOG):
            statuses = cross(api.address, 7, 400, wrong=0.01)
            lines = [json.loads(one.getMessage()) for one in caplog.records if one.name == AUDIT_LOG]
        [only] = api.get("/api/destinations")["destinations"]
        assert (only["name"], only["size"], only["is_paused"]) == ("queue://ORDERS", 3, False)
        assert [one for one in lines if "error" not in one] == []
        assert {"login", "POST /console/do/purge"} <= {one["request"] for one in lines if "request" in one}
        assert not {status for status in statuses if status >= 500}
        assert statuses[403] > 100

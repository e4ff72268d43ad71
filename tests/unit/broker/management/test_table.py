"""The table of operations: a row's method takes what the row gives it, and leaves an audit line."""

from __future__ import annotations

import asyncio
import json
import logging
from inspect import signature
from operator import attrgetter
from typing import Any

import pytest

from jdbcstore import Destination
from jdbcstore.broker.console.actions import ACTIONS
from jdbcstore.broker.management.claims import ClaimManagement
from jdbcstore.broker.management.management import Management
from jdbcstore.broker.management.messages import MessageChoice
from jdbcstore.broker.management.requests import Fields
from jdbcstore.broker.operations import OPERATIONS, Operation
from jdbcstore.config.users import BROWSE, MANAGE, VIEW
from jdbcstore.errors import NotMaster, StoreUnavailable
from jdbcstore.stores.claims.managing import SharedManagement
from tests.support.broker.managed import ALICE, Process

VALUES: dict[str, Any] = {
    **dict.fromkeys(("queue", "destination", "target", "to"), Destination.queue("Q")),
    "topic": Destination.topic("T"),
    "choice": MessageChoice(),
    "messages": [],
}


CHANGES = [operation for operation in OPERATIONS.values() if not operation.only_reads]
OF_CLAIMS = [operation for operation in CHANGES if operation.part == "claims"]
OF_BROKERS = [operation for operation in CHANGES if operation.part != "claims"]
each_operation = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=list(OPERATIONS))


@each_operation
def test_its_method_takes_what_the_row_gives(operation: Operation) -> None:
    management: Any = Management(Process(None))
    if operation.part == "claims":
        management = ClaimManagement(SharedManagement(None, None))  # type: ignore[arg-type]
    method = attrgetter(operation.call)(management)
    arguments = {parameter.name: None for parameter in operation.parameters}
    asks = [] if operation.only_reads or operation.part == "claims" else [ALICE]

    signature(method).bind(*asks, *operation.path_names, **arguments)


@each_operation
def test_a_request_has_its_parameters(operation: Operation) -> None:
    """Those without a default are what a request must have."""
    required = {"to": "queue://R", "topic": "topic://T"}
    keys = {parameter.key for parameter in operation.parameters}
    fields = Fields({key: value for key, value in required.items() if key in keys})

    arguments = fields.arguments(operation.parameters)
    fields.end()

    assert arguments.keys() <= {parameter.name for parameter in operation.parameters}


@each_operation
def test_only_reads_are_for_those_who_may_not_change_anything(operation: Operation) -> None:
    assert operation.role in ((VIEW, BROWSE) if operation.only_reads else (MANAGE,))


@pytest.mark.parametrize("operation", OF_BROKERS, ids=[operation.name for operation in OF_BROKERS])
def test_a_change_leaves_an_audit_line_if_it_is_refused_too(
    operation: Operation, caplog: pytest.LogCaptureFixture
) -> None:
    values = [VALUES.get(name, name) for name in operation.path_names]
    required = {name: VALUES[name] for name in ("choice", "to", "topic", "messages")}
    arguments = {one.name: required[one.name] for one in operation.parameters if one.name in required}

    with caplog.at_level(logging.INFO, "jdbcstore.audit"), pytest.raises(NotMaster):
        asyncio.run(Management(Process(None)).perform(operation, ALICE, *values, **arguments))

    [line] = [json.loads(one.getMessage()) for one in caplog.records if one.name == "jdbcstore.audit"]
    assert (line["user"], line["error"]) == ("alice", "NotMaster")


@pytest.mark.parametrize("operation", OF_CLAIMS, ids=[operation.name for operation in OF_CLAIMS])
def test_a_change_of_claims_leaves_an_audit_line_if_it_fails_too(
    operation: Operation, caplog: pytest.LogCaptureFixture
) -> None:
    def unavailable() -> Any:
        raise StoreUnavailable("no answer")

    values = [VALUES.get(name, 1) for name in operation.path_names]
    claims = ClaimManagement(SharedManagement(None, unavailable))  # type: ignore[arg-type]
    with caplog.at_level(logging.INFO, "jdbcstore.audit"), pytest.raises(StoreUnavailable):
        asyncio.run(claims.perform(operation, ALICE, *values))

    [line] = [json.loads(one.getMessage()) for one in caplog.records if one.name == "jdbcstore.audit"]
    assert (line["user"], line["error"]) == ("alice", "StoreUnavailable")


def test_a_management_performs_its_own_operations() -> None:
    broker = {*Management(Process(None)).operations}
    looking = {*ClaimManagement(SharedManagement(None, None)).operations}  # type: ignore[arg-type]
    changing = {*ClaimManagement(SharedManagement(None, Any)).operations}  # type: ignore[arg-type]

    assert broker | changing == OPERATIONS.keys()
    assert not broker & changing
    assert looking == {name for name in changing if OPERATIONS[name].only_reads}


def test_no_two_have_the_same_address() -> None:
    rows = OPERATIONS.values()
    routes = [(operation.method, path) for operation in rows for path, _ in operation.routes]

    assert len(routes) == len(set(routes))


def test_an_address_is_what_its_route_takes() -> None:
    assert OPERATIONS["move"].url(Destination.queue("A/B c")) == "/api/queues/A%2FB%20c/move"
    assert OPERATIONS["purge"].url(Destination.topic("T")) == "/api/topics/T/purge"
    assert OPERATIONS["unsubscribe"].url("me", "all/of it") == "/api/subscriptions/me/all%2Fof%20it"


def test_the_console_has_forms_for_operations_only() -> None:
    assert {name.replace("-", "_") for name in ACTIONS} <= OPERATIONS.keys()

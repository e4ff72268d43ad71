"""StoreConfig: its defaults, its bounds, and both spellings of its options."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from jdbcstore.config import StoreConfig
from jdbcstore.errors import ConfigurationError


def test_the_defaults_are_activemq_s() -> None:
    config = StoreConfig()

    assert (config.message_table_name, config.durable_sub_acks_table_name, config.lock_table_name) == (
        "ACTIVEMQ_MSGS",
        "ACTIVEMQ_ACKS",
        "ACTIVEMQ_LOCK",
    )
    assert config.table_prefix == ""
    assert config.create_tables_on_startup
    assert config.cleanup_period == 300.0
    assert not config.enable_audit
    assert (config.max_producers_to_audit, config.max_audit_depth, config.audit_recovery_depth) == (
        1024,
        1000,
        1024,
    )


def test_it_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        StoreConfig().table_prefix = "X_"  # type: ignore[misc]


def test_a_copy_with_changes() -> None:
    config = StoreConfig(table_prefix="X_")

    changed = config.replace(enable_audit=True, cleanup_period=0)

    assert (changed.table_prefix, changed.enable_audit, changed.cleanup_period) == ("X_", True, 0)
    assert not config.enable_audit
    assert config.replace() == config


@pytest.mark.parametrize("name", ["A", "_", "a_1$", "ACTIVEMQ_MSGS", "x" * 40])
def test_table_names_that_every_database_takes(name: str) -> None:
    assert StoreConfig(message_table_name=name).message_table_name == name


@pytest.mark.parametrize(
    "name", ["", "1", "a b", "a.b", 'a"b', "a'b", "a`b", "a;b", "ä", "a\n", "$a", "x" * 41]
)
@pytest.mark.parametrize("option", ["message_table_name", "durable_sub_acks_table_name", "lock_table_name"])
def test_table_names_that_some_database_refuses(option: str, name: str) -> None:
    with pytest.raises(ConfigurationError, match=option):
        StoreConfig().replace(**{option: name})


def test_the_prefix_counts_as_part_of_each_name() -> None:
    with pytest.raises(ConfigurationError, match="'1_ACTIVEMQ_MSGS'"):
        StoreConfig(table_prefix="1_")
    with pytest.raises(ConfigurationError, match="at most 40"):
        StoreConfig(table_prefix="x" * 30)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("max_pending_count", 0),
        ("max_pending_bytes", 0),
        ("pool_size", 0),
        ("max_audit_depth", 0),
        ("max_producers_to_audit", -1),
        ("cleanup_period", -0.1),
        ("cleanup_period", float("nan")),
        ("reconnect_timeout", float("inf")),
        ("reconnect_timeout", -1),
        ("audit_recovery_depth", -1),
    ],
)
def test_numbers_out_of_range(option: str, value: float) -> None:
    with pytest.raises(ConfigurationError, match=option):
        StoreConfig(**{option: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("enable_audit", "yes"),
        ("enable_audit", 1),
        ("pool_size", True),
        ("pool_size", 1.5),
        ("cleanup_period", "1"),
        ("table_prefix", None),
        ("nothing_like_it", 5),
    ],
)
def test_options_of_the_wrong_name_or_type(option: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=option):
        StoreConfig().replace(**{option: value})


def test_activemq_s_spelling_has_activemq_s_unit() -> None:
    config = StoreConfig().replace(tablePrefix="X_", cleanupPeriod=60_000, maxAuditDepth=5)

    assert config == StoreConfig(table_prefix="X_", cleanup_period=60.0, max_audit_depth=5)
    assert StoreConfig().replace(cleanupPeriod=-1).cleanup_period == 0.0
    assert StoreConfig().replace(cleanupPeriod=(1 << 63) - 1).cleanup_period == 1e9


def test_a_wrong_option_is_told_the_one_that_was_meant() -> None:
    with pytest.raises(ConfigurationError, match="did you mean pool_size"):
        StoreConfig().replace(poolSise=5)

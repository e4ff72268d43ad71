"""Every option is explained, and obeyed by something, or a note says that it is not."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path

import pytest

import jdbcstore
from jdbcstore import config, load_config
from jdbcstore.config import Configuration, DataSourceConfig, StoreConfig
from jdbcstore.config.broker import BrokerConfig, ConnectorConfig
from jdbcstore.config.fields import Options
from jdbcstore.config.journal import JournalConfig
from jdbcstore.config.locker import (
    CustomLockerConfig,
    DatabaseLockerConfig,
    DefaultIOExceptionHandlerConfig,
    LeaseDatabaseLockerConfig,
    LeaseLockerIOExceptionHandlerConfig,
    SharedFileLockerConfig,
    StreamLockerConfig,
    ZooKeeperLockerConfig,
)
from jdbcstore.config.plugins import (
    DiscardingDeadLettersConfig,
    ForcePersistencyModeConfig,
    LoggingConfig,
    StatisticsConfig,
    TimeStampingConfig,
)
from jdbcstore.config.policy import (
    AbortSlowAckConsumerStrategy,
    AbortSlowConsumerStrategy,
    DiscardingDeadLetterStrategy,
    FixedCountSubscriptionRecoveryPolicy,
    FixedSizedSubscriptionRecoveryPolicy,
    IndividualDeadLetterStrategy,
    LastImageSubscriptionRecoveryPolicy,
    NoSubscriptionRecoveryPolicy,
    PolicyEntry,
    QueryBasedSubscriptionRecoveryPolicy,
    RedeliveryPolicy,
    SharedDeadLetterStrategy,
    SlowConsumerRateStrategy,
    TimedSubscriptionRecoveryPolicy,
)
from jdbcstore.config.routed import RoutedStoreConfig
from jdbcstore.config.virtual import CompositeConfig, ForwardConfig, VirtualTopicConfig

PACKAGE = Path(jdbcstore.__file__).parent

# The code that obeys the options of each class, from the package's folder. A class that resolves some options
# itself, such as where a password is, is among its readers.
STORES = ("database", "lockers", "stores")
READERS: dict[type, tuple[str, ...]] = {
    Configuration: (*STORES, "broker", "config/configuration.py"),
    DataSourceConfig: (*STORES, "config/data_source.py"),
    StoreConfig: STORES,
    JournalConfig: ("journal", "stores", "config/journal.py"),
    RoutedStoreConfig: ("stores", "config/routed.py"),
    **dict.fromkeys(
        (
            *(DatabaseLockerConfig, LeaseDatabaseLockerConfig, SharedFileLockerConfig),
            *(ZooKeeperLockerConfig, StreamLockerConfig, CustomLockerConfig),
        ),
        (*STORES,),
    ),
    **dict.fromkeys((DefaultIOExceptionHandlerConfig, LeaseLockerIOExceptionHandlerConfig), ("stores",)),
    BrokerConfig: ("broker", "cli", "config/broker.py"),
    **dict.fromkeys(
        (
            *(ForcePersistencyModeConfig, TimeStampingConfig, DiscardingDeadLettersConfig),
            *(StatisticsConfig, LoggingConfig),
        ),
        ("broker", "config/plugins.py"),
    ),
    PolicyEntry: ("broker", "config/policy.py"),
    ConnectorConfig: ("broker", "config/broker.py"),
    **dict.fromkeys((VirtualTopicConfig, CompositeConfig, ForwardConfig), ("broker", "config/virtual.py")),
    **dict.fromkeys(
        (
            *(SharedDeadLetterStrategy, IndividualDeadLetterStrategy, DiscardingDeadLetterStrategy),
            *(FixedCountSubscriptionRecoveryPolicy, FixedSizedSubscriptionRecoveryPolicy),
            *(LastImageSubscriptionRecoveryPolicy, NoSubscriptionRecoveryPolicy),
            *(TimedSubscriptionRecoveryPolicy, RedeliveryPolicy),
            *(AbortSlowConsumerStrategy, AbortSlowAckConsumerStrategy, SlowConsumerRateStrategy),
            QueryBasedSubscriptionRecoveryPolicy,
        ),
        ("broker",),
    ),
}

# Options that nothing obeys, each with a value that is not the default: a note says so.
_AUDIT: dict[str, object] = {"enable_audit": True, "max_producers_to_audit": 5, "max_audit_depth": 5}
NOTED: dict[type, dict[str, object]] = {
    SharedDeadLetterStrategy: _AUDIT,
    IndividualDeadLetterStrategy: _AUDIT,
    PolicyEntry: {
        **_AUDIT,
        "max_queue_audit_depth": 5,
        "send_duplicate_from_store_to_dlq": True,
        "store_usage_high_water_mark": 5,
        "minimum_message_size": 5,
        "use_cache": False,
        "lazy_dispatch": True,
        "use_prefetch_extension": False,
        "gc_inactive_destinations": True,
        "inactive_timeout_before_gc": 5.0,
        "dispatch_policy": "priorityDispatchPolicy",
        "strict_order_dispatch": True,
    },
}
# About the options, and not options; and a name that only config show prints.
NO_OPTIONS = {Configuration: {"sources", "notes", "problems"}, ConnectorConfig: {"name"}}


@cache
def read_in(place: str) -> frozenset[str]:
    """The attributes that are read in a module or package, and the parameters of its functions."""
    found: set[str] = set()
    path = PACKAGE / place
    for file in [path] if path.suffix else path.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                found.add(node.attr)
            elif isinstance(node, ast.arg):
                found.add(node.arg)  # lockers get their options as arguments
    return frozenset(found)


def test_every_class_of_options_has_its_readers() -> None:
    modules = [
        importlib.import_module(f"jdbcstore.config.{module.name}")
        for module in pkgutil.iter_modules(config.__path__)
    ]
    classes = {
        kind
        for module in modules
        for name, kind in vars(module).items()
        if isinstance(kind, type) and is_dataclass(kind) and issubclass(kind, Options) and name[0] != "_"
    }
    assert classes <= READERS.keys()


@pytest.mark.parametrize("kind", READERS, ids=lambda kind: kind.__name__)
def test_every_option_is_obeyed_or_noted(kind: type) -> None:
    read = frozenset().union(*map(read_in, READERS[kind]))
    noted = NOTED.get(kind, {})

    options = {one.name for one in fields(kind)} - NO_OPTIONS.get(kind, set())
    silent = sorted(options - read - noted.keys())
    assert silent == [], f"nothing reads {silent}: obey them, or add a note in config/load.py"
    assert noted.keys() <= options
    again = sorted(noted.keys() & read - {one.name for one in fields(StoreConfig)})
    assert again == [], "obeyed now: remove them from NOTED, and the note from config/load.py"


def noted_options() -> Iterator[tuple[type, str]]:
    return ((kind, option) for kind, options in NOTED.items() for option in options)


@pytest.mark.parametrize(("kind", "option"), noted_options())
def test_what_is_not_obeyed_is_noted(tmp_path: Path, kind: type, option: str) -> None:
    value = NOTED[kind][option]
    given = f"{option} = {str(value).lower() if isinstance(value, bool) else repr(value)}"
    if kind is not PolicyEntry:
        given = f'dead_letter_strategy = {{ type = "{kind.type}", {given} }}'  # type: ignore[attr-defined]
    path = tmp_path / "jdbcstore.toml"
    path.write_text(f'[[policies]]\nqueue = ">"\n{given}\n')

    [note] = load_config(path, environment={}).notes

    assert note.text.startswith(f"{option} of a ")
    assert note.place.startswith(f"{path}, [[policies]] no. 1")


def unexplained(tree: ast.ClassDef) -> Iterator[str]:
    """The fields of a class that no string follows."""
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        if isinstance(node, ast.AnnAssign) and "ClassVar" not in ast.unparse(node) and not is_text:
            yield f"{tree.name}.{ast.unparse(node.target)}"


def test_every_option_is_explained() -> None:
    bare = [
        name
        for file in sorted((PACKAGE / "config").glob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ClassDef) and "kw_only" in " ".join(map(ast.unparse, node.decorator_list))
        for name in unexplained(node)
    ]
    assert bare == []

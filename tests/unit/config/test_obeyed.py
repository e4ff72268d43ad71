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
from jdbcstore.config.fates import FATES, element_of, names_of
from jdbcstore.config.fields import Options, camel, snake
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

# Options of TOML that have no effect: a note says so.
_AUDIT = ("enable_audit", "max_producers_to_audit", "max_audit_depth")
NOTED = [
    *(
        (kind, option)
        for kind in (SharedDeadLetterStrategy, IndividualDeadLetterStrategy)
        for option in _AUDIT
    ),
    *((PolicyEntry, snake(name)) for name in sorted(names_of("PolicyEntry"))),
]
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

    options = {one.name for one in fields(kind)} - NO_OPTIONS.get(kind, set())
    silent = sorted(options - read)
    assert silent == [], f"nothing reads {silent}: obey them, or make them rows of config/fates.py"


@pytest.mark.parametrize(("kind", "option"), NOTED)
def test_what_is_not_obeyed_is_noted(tmp_path: Path, kind: type, option: str) -> None:
    fate = FATES[element_of(kind), camel(option)]
    given = f"{option} = {'true' if 'false' in fate.harmless else 'false'}"
    if kind is not PolicyEntry:
        given = f'dead_letter_strategy = {{ type = "{kind.type}", {given} }}'  # type: ignore[attr-defined]
    path = tmp_path / "jdbcstore.toml"
    path.write_text(f'[[policies]]\nqueue = ">"\n{given}\n')

    [note] = load_config(path, environment={}).notes

    assert (note.kind, note.text) == (fate.kind, f"{option}: {fate.reason}")
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

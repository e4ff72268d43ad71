"""Where a configuration comes from: files, the environment, the caller; and who wins."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import keyring
import pytest
from keyring.backend import KeyringBackend

import jdbcstore
from jdbcstore import Configuration, JdbcStore, MemoryStore, StoreConfig, load_config
from jdbcstore.config import DataSourceConfig
from jdbcstore.config.journal import JournalConfig
from jdbcstore.config.locker import (
    LeaseDatabaseLockerConfig,
    SharedFileLockerConfig,
)
from jdbcstore.config.policy import (
    DiscardingDeadLetterStrategy,
    FixedSizedSubscriptionRecoveryPolicy,
    IndividualDeadLetterStrategy,
    PolicyEntry,
    RedeliveryPolicy,
)
from jdbcstore.errors import ConfigurationError

FULL = """
url = "postgresql://mq@db.example.com/mq"
password = "s3cret"
broker_name = "one"
table_prefix = "X_"
cleanup_period = 5
max_pending_bytes = "1 mb"

[statements]
remove_message_statement = "delete ... ?"
stringIdDataType = "VARCHAR(128)"

[locker]
type = "lease-database-locker"
lease_holder_id = "one"
lockAcquireSleepInterval = 5000
lock_keep_alive_period = 1.5
data_source = { url = "jdbc:postgresql://lock.example.com/mq" }

[journal]
checkpoint_interval = 60
journal_log_file_size = "5 mb"

[[policies]]
queue = ">"
memory_limit = "1mb"
pending_queue_policy = "vmQueueCursor"
dead_letter_strategy = { type = "individualDeadLetterStrategy", queue_prefix = "DLQ." }

[[policies]]
topic = ">"
strict_order_dispatch = true
sendFailIfNoSpaceAfterTimeout = 3000
dead_letter_strategy = { type = "discarding" }
redelivery_policy = { maximum_redeliveries = -1, redeliveryDelay = 500 }
subscription_recovery_policy = { type = "fixedSizedSubscriptionRecoveryPolicy", maximum_size = "1 kb" }
"""


def write(folder: Path, text: str, name: str = "jdbcstore.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def load(path: Path | None = None, **environment: str) -> Configuration:
    return load_config(path, environment=environment)


def test_nothing_gives_the_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    configuration = load()

    assert configuration == Configuration()
    assert configuration.data_source.url is None
    assert configuration.sources == {}
    assert configuration.notes == ()


def test_a_file_with_everything(tmp_path: Path) -> None:
    configuration = load(write(tmp_path, FULL))

    assert configuration == Configuration(
        data_source=DataSourceConfig(url="postgresql://mq@db.example.com/mq", password="s3cret"),
        store=StoreConfig(
            table_prefix="X_",
            cleanup_period=5,
            max_pending_bytes=1 << 20,
            string_id_data_type="VARCHAR(128)",
            statements={"removeMessageStatement": "delete ... ?"},
        ),
        broker_name="one",
        locker=LeaseDatabaseLockerConfig(
            lease_holder_id="one",
            lock_acquire_sleep_interval=5.0,
            lock_keep_alive_period=1.5,
            data_source=DataSourceConfig(url="jdbc:postgresql://lock.example.com/mq"),
        ),
        journal=JournalConfig(checkpoint_interval=60, journal_log_file_size=5 << 20),
        policies=(
            PolicyEntry(
                queue=">",
                memory_limit=1 << 20,
                pending_queue_policy="vmQueueCursor",
                dead_letter_strategy=IndividualDeadLetterStrategy(queue_prefix="DLQ."),
            ),
            PolicyEntry(
                topic=">",
                send_fail_if_no_space_after_timeout=3.0,
                dead_letter_strategy=DiscardingDeadLetterStrategy(),
                redelivery_policy=RedeliveryPolicy(maximum_redeliveries=-1, redelivery_delay=0.5),
                subscription_recovery_policy=FixedSizedSubscriptionRecoveryPolicy(maximum_size=1024),
            ),
        ),
    )


def test_empty_sections(tmp_path: Path) -> None:
    assert load(write(tmp_path, "policies = []\n[statements]\n[journal]")) == (
        Configuration(journal=JournalConfig())
    )


def test_each_value_has_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, FULL)

    sources = load_config(environment={"JDBCSTORE_POOL_SIZE": "7"}, table_prefix="Y_").sources

    assert sources["url"] == "jdbcstore.toml"
    assert sources["locker.type"] == "jdbcstore.toml, [locker]"
    assert sources["locker.lock_acquire_sleep_interval"] == "jdbcstore.toml, [locker]"
    assert sources["locker.data_source.url"] == "jdbcstore.toml, [locker], [locker.data_source]"
    assert sources["policies[1].topic"] == "jdbcstore.toml, [[policies]] no. 2"
    assert sources["policies[1].redelivery_policy.redelivery_delay"] == (
        "jdbcstore.toml, [[policies]] no. 2, [policies.redelivery_policy]"
    )
    assert sources["statements.removeMessageStatement"] == "jdbcstore.toml, [statements]"
    assert sources["pool_size"] == "JDBCSTORE_POOL_SIZE"
    assert sources["table_prefix"] == "argument"
    assert "message_table_name" not in sources


def test_the_nearest_source_wins(tmp_path: Path) -> None:
    path = write(tmp_path, "pool_size = 1\nmax_audit_depth = 1\naudit_recovery_depth = 1")
    environment = {"JDBCSTORE_POOL_SIZE": "2", "JDBCSTORE_MAX_AUDIT_DEPTH": "2"}

    store = load_config(path, environment=environment, pool_size=3).store

    assert (store.pool_size, store.max_audit_depth, store.audit_recovery_depth) == (3, 2, 1)


def test_the_environment_names_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "pool_size = 1", "other.toml")

    assert load(JDBCSTORE_CONFIG=str(path)).store.pool_size == 1


def test_every_kind_of_value_in_the_environment() -> None:
    configuration = load(
        JDBCSTORE_URL="sqlite:///x.db",
        JDBCSTORE_ENABLE_AUDIT="true",
        JDBCSTORE_CREATE_TABLES_ON_STARTUP="no",
        JDBCSTORE_CLEANUP_PERIOD="1.5",
        JDBCSTORE_MAX_PENDING_BYTES="1 mb",
        JDBCSTORE_TABLE_PREFIX="X_",
        JDBCSTORE_LOCKER_TYPE="shared-file-locker",
        JDBCSTORE_LOCKER_DIRECTORY="/shared",
    )

    assert configuration.data_source.url == "sqlite:///x.db"
    assert configuration.store == StoreConfig(
        enable_audit=True,
        create_tables_on_startup=False,
        cleanup_period=1.5,
        max_pending_bytes=1 << 20,
        table_prefix="X_",
    )
    assert configuration.locker == SharedFileLockerConfig(directory="/shared")


def test_a_variable_of_nobody_is_told() -> None:
    (note,) = load(JDBCSTORE_POOLSIZE="3").notes

    assert "JDBCSTORE_POOLSIZE" in note.text
    assert "did you mean JDBCSTORE_POOL_SIZE" in note.text
    assert load(JDBCSTORE_JDBC_JARS="x.jar", JDBCSTORE_REQUIRE="sqlite", JDBCSTORE_URL="").notes == ()
    assert load(JDBCSTORE_PURE="1").notes == ()


def test_what_is_not_run_is_told(tmp_path: Path) -> None:
    texts = [str(note) for note in load(write(tmp_path, FULL)).notes]

    assert [text.split(":")[0] for text in texts] == [f"{tmp_path}/jdbcstore.toml, [[policies]] no. 2"]


def test_a_url_takes_its_login_with_it(tmp_path: Path) -> None:
    path = write(tmp_path, 'url = "postgresql://h/d"\nuser = "me"\npassword = "s3cret"')

    assert load(path, JDBCSTORE_PASSWORD="other").data_source == DataSourceConfig(
        url="postgresql://h/d", user="me", password="other"
    )
    assert load(path, JDBCSTORE_URL="mysql://h/d").data_source == DataSourceConfig(url="mysql://h/d")
    assert load_config(environment={"JDBCSTORE_PASSWORD": "x"}, url="mysql://h/d").data_source == (
        DataSourceConfig(url="mysql://h/d", password="x")
    )
    both = {"JDBCSTORE_PASSWORD": "x", "JDBCSTORE_USER": "you"}
    assert load_config(path, environment=both, url="mysql://h/d").data_source == (
        DataSourceConfig(url="mysql://h/d", user="you", password="x")
    )
    assert load_config(
        path, environment={"JDBCSTORE_URL": "mysql://i/d", **both}, url="mysql://h/d"
    ).data_source == (DataSourceConfig(url="mysql://h/d"))


@pytest.mark.parametrize(
    ("url", "clean", "password"),
    [
        ("postgresql://me:s3cret@h:1/d?a=b", "postgresql://me@h:1/d?a=b", "s3cret"),
        ("postgresql://me:s%40cret@h/d", "postgresql://me@h/d", "s@cret"),
        ("jdbc:postgresql://h/d?user=me&password=s%40cret", "jdbc:postgresql://h/d?user=me", "s@cret"),
        ("jdbc:mysql://h/d?password=s3cret&user=me", "jdbc:mysql://h/d?user=me", "s3cret"),
        ("jdbc:sqlserver://h;user=me;password=s3cret;x=1", "jdbc:sqlserver://h;user=me;x=1", "s3cret"),
        ("jdbc:sqlserver://h;password={s3;c}}ret};user=me", "jdbc:sqlserver://h;user=me", "s3;c}ret"),
        ("jdbc:db2://h/d:user=me;password=s3cret;x=1;", "jdbc:db2://h/d:user=me;x=1;", "s3cret"),
        ("jdbc:db2://h/d:password=s3cret;user=me;", "jdbc:db2://h/d:user=me;", "s3cret"),
        ("jdbc:db2://h/d:password=s3cret;", "jdbc:db2://h/d", "s3cret"),
        ("jdbc:derby://h/d;create=true;password=s%3cret", "jdbc:derby://h/d;create=true", "s%3cret"),
        ("jdbc:oracle:thin:scott/tiger@h:1521:x", "jdbc:oracle:thin:@h:1521:x", "tiger"),
        ("jdbc:postgresql://me:s3cret@h/d", "jdbc:postgresql://h/d", "s3cret"),
        ("jdbc:mysql://me:s%40@cr/et@h:1/d?x=a@b", "jdbc:mysql://h:1/d?x=a@b", "s@@cr/et"),
        ("jdbc:mariadb://me:s3?cret@h/d", "jdbc:mariadb://h/d", "s3?cret"),
        ("jdbc:mysql:loadbalance://:s3cret@h,i/d", "jdbc:mysql:loadbalance://h,i/d", "s3cret"),
        ("jdbc:mysql://h:3306/d?user=me@corp", "jdbc:mysql://h:3306/d?user=me@corp", None),
        ("jdbc:postgresql://h:1,i:2/d@e", "jdbc:postgresql://h:1,i:2/d@e", None),
        ("jdbc:sqlserver://h:1433;user=a@b", "jdbc:sqlserver://h:1433;user=a@b", None),
        ("jdbc:postgresql://[::1]:5432/d?user=a@b", "jdbc:postgresql://[::1]:5432/d?user=a@b", None),
        ("sqlite:///a.db", "sqlite:///a.db", None),
        ("memory:", "memory:", None),
    ],
)
def test_the_password_leaves_the_url(url: str, clean: str, password: str | None) -> None:
    data_source = DataSourceConfig(url=url)

    assert (data_source.url, data_source.password) == (clean, password)
    assert data_source.reveal({}) == password
    assert password is None or password not in repr(data_source)


@pytest.mark.parametrize(
    "url",
    [
        "jdbc:mysql://address=(host=h)(user=me)(password=s3cret)/d",
        "jdbc:mysql://(host=h,password=s3cret,port=1)/d",
        "jdbc:mysql://h/d?sslPassword=s3cret",
    ],
)
def test_a_password_that_stays_in_the_url_is_not_shown(url: str) -> None:
    shown = str(DataSourceConfig(url=url).masked().url)
    assert "s3cret" not in shown
    assert "host=h" in shown or "//h/d" in shown


def test_a_login_in_a_jdbc_url_is_the_login() -> None:
    found = DataSourceConfig(url="jdbc:postgresql://me:s3cret@h/d")
    assert (found.user, found.password) == ("me", "s3cret")


def test_a_password_from_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret\n")
    from_file = load(write(tmp_path, 'password_file = "secret"')).data_source
    from_environment = DataSourceConfig(password_env="SECRET")

    assert from_file.reveal({}) == "s3cret"
    assert from_environment.reveal({"SECRET": "s3cret"}) == "s3cret"


def test_a_password_that_is_not_there(tmp_path: Path) -> None:
    for data_source, told in (
        (DataSourceConfig(password_file=str(tmp_path / "no")), "No such file"),
        (DataSourceConfig(password_env="NO"), "NO, which is not set"),
        (DataSourceConfig(password="ENC(abc)"), "Jasypt"),
        (DataSourceConfig(password_keyring="x"), "needs user"),
    ):
        with pytest.raises(ConfigurationError, match=told):
            data_source.reveal({})
    with pytest.raises(ConfigurationError, match="only one of"):
        DataSourceConfig(password="a", password_env="B")


class DictKeyring(KeyringBackend):
    """A keyring of the test's own."""

    priority = 1
    passwords: ClassVar = {("mq", "me"): "s3cret"}

    def get_password(self, service: str, username: str) -> str | None:
        return self.passwords.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        raise NotImplementedError


def test_a_password_from_a_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyring.core, "_keyring_backend", DictKeyring())  # type: ignore[no-untyped-call]

    assert DataSourceConfig(password_keyring="mq", user="me").reveal({}) == "s3cret"
    with pytest.raises(ConfigurationError, match="keyring set mq you"):
        DataSourceConfig(password_keyring="mq", user="you").reveal({})


def test_a_store_of_a_configuration(tmp_path: Path) -> None:
    path = write(tmp_path, f'url = "sqlite:///{tmp_path / "mq.db"}"\ntable_prefix = "X_"\npool_size = 1')

    with jdbcstore.open(load(path), pool_size=2) as store:
        assert isinstance(store, JdbcStore)
        assert store.config == StoreConfig(table_prefix="X_", pool_size=2)
        store.queue("Q").add_message(jdbcstore.Message("x"))

    with jdbcstore.open(load(path)) as store:
        assert store.queue("Q").message_count() == 1


def test_a_store_in_memory_of_a_configuration(tmp_path: Path) -> None:
    with jdbcstore.open(load(write(tmp_path, 'url = "memory:"'))) as store:
        assert isinstance(store, MemoryStore)


def test_opening_says_what_is_not_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = f'url = "sqlite:///{tmp_path / "mq.db"}"\n[[policies]]\nstrict_order_dispatch = true'

    with jdbcstore.open(load(write(tmp_path, text))):
        pass

    assert "strict_order_dispatch: " in caplog.text


def test_an_error_of_opening_names_the_place(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"jdbcstore\.toml: no adapter"):
        jdbcstore.open(load(write(tmp_path, 'url = "frobnicate://h/d"')))
    with pytest.raises(ConfigurationError, match="no database is named"):
        jdbcstore.open(load(write(tmp_path, "")))

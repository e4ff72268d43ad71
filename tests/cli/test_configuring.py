"""``config show``: every option, its source, no secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Invoke

SECRET = "hush-hush"


def test_the_defaults(invoke: Invoke) -> None:
    shown = invoke("config", "show", "--json").json

    options = {one["option"]: (one["value"], one["source"]) for one in shown["options"]}
    assert options["url"] == ("sqlite:///activemq-data/jdbcstore.db", "default")
    assert options["pool_size"] == (5, "default")
    assert options["locker"] == (None, "default")
    assert shown["notes"] == []


def test_values_sources_and_notes(invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jdbcstore.toml").write_text(
        'table_prefix = "X_"\n[locker]\ntype = "database-locker"\n'
        '[[policies]]\nqueue = "A.>"\nstrict_order_dispatch = true'
    )
    monkeypatch.setenv("JDBCSTORE_POOL_SIZE", "3")

    shown = invoke("config", "show", "--json", "--url", f"postgresql://me:{SECRET}@h/d?sslpassword=x").json

    options = {one["option"]: (one["value"], one["source"]) for one in shown["options"]}
    assert options["url"] == ("postgresql://me@h/d?sslpassword=***", "--url")
    assert options["password"] == ("***", "--url")
    assert options["table_prefix"] == ("X_", "jdbcstore.toml")
    assert options["pool_size"] == (3, "JDBCSTORE_POOL_SIZE")
    assert options["locker.type"] == ("database-locker", "jdbcstore.toml, [locker]")
    assert options["policies[0].queue"] == ("A.>", "jdbcstore.toml, [[policies]] no. 1")
    assert [(note["kind"], note["place"]) for note in shown["notes"]] == [
        ("not supported", "jdbcstore.toml, [[policies]] no. 1"),
    ]


def test_the_table(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "jdbcstore.toml").write_text(
        f'password = "{SECRET}"\n[[policies]]\nstrict_order_dispatch = true'
    )

    result = invoke("config", "show")

    rows = {line.split()[0]: line.split()[1:] for line in result.out.splitlines() if line}
    assert rows["password"] == ["***", "jdbcstore.toml"]
    assert rows["create_tables_on_startup"] == ["true", "default"]
    assert rows["table_prefix"] == ["''", "default"]
    assert "strict_order_dispatch: " in result.out
    assert SECRET not in result.out + result.err


def test_what_is_not_run_is_told_before_a_write(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "jdbcstore.toml").write_text(2 * "[[policies]]\nstrict_order_dispatch = true\n")

    sent, read = invoke("send", "Q", "x"), invoke("browse", "Q")

    assert (sent.code, read.code) == (0, 0)
    (line,) = sent.err.splitlines()
    assert line.startswith("jdbcstore: jdbcstore.toml, [[policies]] no. 1: ")
    assert line.endswith("and 1 more; see jdbcstore config show")
    assert read.err == ""


def test_the_file_of_the_environment(invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other.toml").write_text('url = "sqlite:///other.db"')
    monkeypatch.setenv("JDBCSTORE_CONFIG", "other.toml")

    assert invoke("init", "--json").json["url"] == "sqlite:///other.db"


ACTIVEMQ = f"""<broker xmlns="http://activemq.apache.org/schema/core" brokerName="one">
  <persistenceAdapter>
    <jdbcPersistenceAdapter dataSource="#ds" maxRows="5" enableAudit="true" useLock="false"/>
  </persistenceAdapter>
  <bean id="ds" class="x.BasicDataSource" xmlns="http://www.springframework.org/schema/beans">
    <property name="url" value="jdbc:postgresql://h/d?sslpassword={SECRET}"/>
    <property name="password" value="{SECRET}"/>
  </bean>
</broker>
"""


def test_convert(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "activemq.xml").write_text(ACTIVEMQ)

    result = invoke("config", "convert", "activemq.xml")

    lines = result.out.splitlines()
    assert lines[:6] == [
        "# Converted from activemq.xml by jdbcstore config convert.",
        'url = "jdbc:postgresql://h/d?sslpassword=***" # line 6, url; replace *** with the secret',
        'password_env = "JDBCSTORE_PASSWORD" # line 7, password; export it, or give a password_file or'
        " password_keyring instead",
        'broker_name = "one" # line 1, brokerName',
        "enable_audit = true # line 3, enableAudit",
        "",
    ]
    assert "# - activemq.xml:3, maxRows: the caller chooses the size of each page" in lines
    assert SECRET not in result.out + result.err


def test_convert_into_a_new_file(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "activemq.xml").write_text(ACTIVEMQ)
    to_file = ("config", "convert", "activemq.xml", "-o", "jdbcstore.toml")

    converted = invoke(*to_file, "--json").json
    again = invoke(*to_file)
    shown = invoke("config", "show", "--json").json

    assert converted["file"] == "jdbcstore.toml"
    assert again.code == 2
    assert "jdbcstore.toml exists" in again.err
    options = {one["option"]: (one["value"], one["source"]) for one in shown["options"]}
    assert options["enable_audit"] == (True, "jdbcstore.toml")
    assert options["password_env"] == ("JDBCSTORE_PASSWORD", "jdbcstore.toml")


def test_statements_that_are_not_run_are_told(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "jdbcstore.toml").write_text(
        '[statements]\nfind_all_messages_statement = "SELECT ID, MSG FROM ACTIVEMQ_MSGS WHERE CONTAINER = ?"'
    )

    shown = invoke("config", "show", "--json").json

    [note] = shown["notes"]
    assert (note["kind"], note["place"]) == ("ignored", "jdbcstore.toml, [statements]")
    assert note["text"].startswith("findAllMessagesStatement is not run: ")
    [option] = [one for one in shown["options"] if one["option"].startswith("statements.")]
    assert option["option"] == "statements.findAllMessagesStatement"
    assert option["source"] == "jdbcstore.toml, [statements]"

"""Statements in the user's words: their names, their parameters, and what is wrong with them."""

from __future__ import annotations

import re
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from jdbcstore import StoreConfig
from jdbcstore.config.statements import PROPERTIES, parse, split, unused_statements
from jdbcstore.database.adapters.sqlite import SqliteAdapter
from jdbcstore.database.session import DatabaseSession
from jdbcstore.database.statements.lock import LockStatements
from jdbcstore.database.statements.store import Statements
from jdbcstore.errors import ConfigurationError
from tests.support.statements import ACTIVEMQ_STATEMENTS

OLDER = {"deleteOldMessagesStatement"}
"""What only versions before those of these texts have."""
REMOVE = "DELETE FROM ACTIVEMQ_MSGS WHERE ID="
COUNT = "SELECT COUNT(*) FROM ACTIVEMQ_MSGS WHERE CONTAINER="


def test_activemq_s_own_texts_are_taken() -> None:
    config = StoreConfig(statements=ACTIVEMQ_STATEMENTS)

    misspelt = {"removeMessageStatement": ACTIVEMQ_STATEMENTS["removeMessageStatment"]}
    given = {name: text for name, text in ACTIVEMQ_STATEMENTS.items() if name != "removeMessageStatment"}
    assert dict(config.statements) == given | misspelt
    assert {one.name for one in PROPERTIES if one.kind is str} - {*config.statements} == {
        "dropAckPKAlterStatementEnd",
        *OLDER,
    }
    assert config.replace() == config


@pytest.mark.parametrize(
    "name", ["removeMessageStatement", "remove_message_statement", "removeMessageStatment"]
)
def test_spellings_of_a_name(name: str) -> None:
    assert dict(StoreConfig(statements={name: REMOVE + "?"}).statements) == {
        "removeMessageStatement": REMOVE + "?"
    }


def test_names_and_types_are_taken_from_among_them() -> None:
    config = StoreConfig(
        message_table_name="M",
        statements={"tablePrefix": "X_", "messageTableName": "M", "string_id_data_type": "TEXT"},
    )

    assert (config.table_prefix, config.message_table_name, config.string_id_data_type) == ("X_", "M", "TEXT")
    assert not config.statements


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (REMOVE + "?", ["id"]),
        (REMOVE + ":id", ["id"]),
        (REMOVE + ":id OR :id IS NULL", ["id", "id"]),
        (REMOVE + "? AND CONTAINER <> '?' -- ?", ["id"]),
        (REMOVE + "? AND CONTAINER <> 'it''s ?' /* ? :x */", ["id"]),
        (REMOVE + '? AND "a?b" = `c?d`', ["id"]),
        (REMOVE + "?::BIGINT AND $a$ ? $a$ <> ''", ["id"]),
        (REMOVE + "? ; ", ["id"]),
    ],
)
def test_parameters_are_found(text: str, names: list[str]) -> None:
    template = parse("removeMessageStatement", text, ("id",))

    assert list(template.names) == names
    assert re.sub(":id", "?", template.render(lambda *_: "?")) == re.sub(":id", "?", text.rstrip("; "))


def test_rendering() -> None:
    template = parse("x", "SELECT '100%' WHERE A = :b AND C = :a", ("a", "b"))

    assert template.names == ("b", "a")
    assert template.render(lambda number, _: f"${number}") == "SELECT '100%' WHERE A = $1 AND C = $2"
    assert template.render(lambda *_: "%s", lambda text: text.replace("%", "%%")) == (
        "SELECT '100%%' WHERE A = %s AND C = %s"
    )


def test_several_statements() -> None:
    assert split("CREATE TABLE A (B ';') ; -- ; \nCREATE INDEX C;") == [
        "CREATE TABLE A (B ';')",
        "-- ; \nCREATE INDEX C",
    ]
    given = {"createSchemaStatements": "CREATE TABLE A; CREATE TABLE B"}
    assert StoreConfig(statements=given).statements["createSchemaStatements"] == (
        "CREATE TABLE A",
        "CREATE TABLE B",
    )


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"addMessageStatemnt": "x"}, "has no 'addMessageStatemnt'; did you mean addMessageStatement?"),
        ({"stringIdDatatyp": "x"}, "did you mean stringIdDataType?"),
        ({"wireFormat": "x"}, "has no 'wireFormat'; the guide to replacing statements"),
        ({"removeMessageStatement": REMOVE}, r"takes 1 parameter .*, but has no parameter"),
        ({"removeMessageStatement": REMOVE + "? + ?"}, r"takes 1 parameter .*, but has 2 times \?"),
        ({"removeMessageStatement": REMOVE + "? + :id"}, r"mixes \? with :id; use one"),
        ({"removeMessageStatement": REMOVE + ":ID"}, "but has :ID"),
        (
            {"updateMessageStatement": "UPDATE M SET MSG = :msg"},
            "lacks :msgid_prod, :msgid_seq, :container",
        ),
        ({"findAllDestinationsStatement": COUNT + "?"}, r"takes no parameters, but has 1 times \?"),
        ({"removeMessageStatement": " "}, "must be a string, not ' '"),
        ({"removeMessageStatement": 7}, "must be a string, not 7"),
        ({"createSchemaStatements": 7}, "must be a statement or a list of statements, not 7"),
        ({"createSchemaStatements": ["x", " "]}, "contains an empty statement"),
        ({"useLockCreateWhereClause": "perhaps"}, "must be true or false, not 'perhaps'"),
        ({"useExternalMessageReferences": "true"}, "useExternalMessageReferences cannot be true"),
        (
            {"removeMessageStatement": REMOVE + "?", "removeMessageStatment": REMOVE + ":id"},
            "two different values of removeMessageStatement",
        ),
        ({"tablePrefix": "X_", "table_prefix": "Y_"}, "two different values of table_prefix"),
        ({"tablePrefix": "X Y"}, "gives 'X YACTIVEMQ_MSGS'"),
        ({"stringIdDataType": "A'B"}, "string_id_data_type must be a column type"),
    ],
)
def test_what_is_wrong_is_told(given: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        StoreConfig(statements=given)  # type: ignore[arg-type]


def test_a_name_given_twice() -> None:
    with pytest.raises(ConfigurationError, match="table_prefix is 'A_', and in statements 'B_'"):
        StoreConfig(table_prefix="A_", statements={"tablePrefix": "B_"})


def test_an_error_says_which_option_is_to_blame() -> None:
    with pytest.raises(ConfigurationError) as raised:
        StoreConfig(statements={"remove_message_statement": "x"})

    assert raised.value.option == "statements.removeMessageStatement"


def test_those_that_are_not_run_are_told() -> None:
    told = dict(unused_statements(StoreConfig(statements=ACTIVEMQ_STATEMENTS).statements))

    assert set(told) == {one.name for one in PROPERTIES if one.unused and one.kind is str} - OLDER
    assert "never runs it" in told["nextDurableSubscriberMessageStatement"]
    assert "addMessageStatement" not in told


COUNT_OF_MINE = "SELECT COUNT(*) FROM ACTIVEMQ_MSGS WHERE CONTAINER = ? AND XID IS NULL"


def test_stores_share_their_statements_if_these_are_made_of_the_same(tmp_path: Path) -> None:
    def mine(text: str) -> StoreConfig:
        return StoreConfig(statements={"destinationMessageCountStatement": text})

    different = [
        StoreConfig(),
        StoreConfig(table_prefix="X_"),
        mine(COUNT_OF_MINE),
        mine(f"{COUNT_OF_MINE} AND 1 = 1"),
    ]
    with ExitStack() as opened:

        def statements(number: int, config: StoreConfig) -> Statements:
            session = DatabaseSession(f"sqlite:///{tmp_path / str(number)}.db", config)
            opened.callback(session.close)
            return session.statements

        first = [statements(number, config) for number, config in enumerate(different)]
        again = [statements(number + 10, config) for number, config in enumerate(different)]

    assert len({id(one) for one in first}) == len(different)
    assert all(one is other for one, other in zip(first, again, strict=True))


def test_statements_are_not_shared_with_another_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test may have the database's clock replaced: neither it nor those after it get the other's."""

    def clock(name: str) -> str:
        with closing(DatabaseSession(f"sqlite:///{tmp_path / name}.db", StoreConfig())) as session:
            now_ms = session.of(LockStatements).now_ms
            assert now_ms is not None
            return now_ms.text

    usual = clock("first")
    with monkeypatch.context() as other:
        other.setattr(SqliteAdapter, "now_ms", "4711")
        assert "4711" in clock("second") != usual
    assert clock("third") == usual

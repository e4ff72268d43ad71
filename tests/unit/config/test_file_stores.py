"""docs/guide/settings.csv has the settings of stores in files; the page has those that place the files."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from jdbcstore.config import Configuration, Kind, StoreConfig, load_config
from jdbcstore.config.broker import BrokerConfig
from jdbcstore.config.fates import FATES, names_of
from jdbcstore.config.fields import find_field
from jdbcstore.config.journal import JournalConfig
from jdbcstore.config.routed import folder_name
from jdbcstore.config.xml.file_stores import PLACES, TAKEN
from jdbcstore.errors import ConfigurationError
from tests.support import ROOT

PAGE = ROOT / "docs" / "guide" / "file-stores.md"
LIST = PAGE.with_name("settings.csv")
KINDS = sorted(TAKEN)


def listed() -> dict[tuple[str, str], str]:
    """Return the option or reason of each setting, by its element and name, from the list."""
    with LIST.open(newline="") as file:
        return {
            (row["element"], row["setting"]): row["supported as, or reason"] for row in csv.DictReader(file)
        }


@pytest.mark.parametrize("kind", KINDS)
def test_the_list_has_the_options_of_the_code(kind: str) -> None:
    element = "core" if kind == "broker.xml" else kind
    found = listed()

    for name, option in TAKEN[kind].items():
        assert option.endswith(found[element, name].rpartition(".")[2]), name


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_has_the_settings_that_place_files(kind: str) -> None:
    section = PAGE.read_text().partition("\n## Settings\n")[2].partition("\n### ")[0]
    rows = re.findall(r"^\| ([^|]+) \| `([\w-]+)` \| [^|]+ \|$", section, re.MULTILINE)
    everywhere = "all but `broker.xml`"
    found = {
        name for where, name in rows if f"`{kind}`" in where.replace(everywhere, "")
        or (where == everywhere and kind != "broker.xml")
    }  # fmt: skip

    assert found == {*PLACES[kind]}


@pytest.mark.parametrize("kind", [*KINDS, "mKahaDB", "replicatedLevelDB"])
def test_the_list_has_the_settings_without_effect(kind: str) -> None:
    found = listed()
    element = "core" if kind == "broker.xml" else kind
    # The schemas do not have every setting of other versions, nor the beans that a KahaDB may have.
    names = {name for name in names_of(kind) if (element, name) in found}

    assert len(names) > 8
    assert {name: found[element, name] for name in names} == {
        name: FATES[kind, name].reason for name in names
    }


def test_each_option_is_there() -> None:
    kinds = {"journal": JournalConfig, "broker": BrokerConfig, "": StoreConfig}
    for options in TAKEN.values():
        for option in options.values():
            section, _, name = option.rpartition(".")
            assert find_field(kinds[section], name) or find_field(Configuration, name), option


def load(folder: Path, adapter: str) -> Configuration:
    path = folder / "activemq.xml"
    path.write_text(f"<broker>\n<persistenceAdapter>\n{adapter}\n</persistenceAdapter>\n</broker>")
    return load_config(path, environment={})


WRONG = {
    "sync": ('<kahaDB journalDiskSyncStrategy="SOMETIMES"/>', "always, periodic, never, not 'SOMETIMES'"),
    "truth": ('<levelDB sync="maybe"/>', "sync must be one of true, false, not 'maybe'"),
    "size": ('<kahaDB journalMaxFileLength="big"/>', "journal_log_file_size must be a number of bytes"),
    "element": (
        "<kahaDB><journalMaxFileLength><a/></journalMaxFileLength></kahaDB>",
        "not an element",
    ),
    "no store": ("<mKahaDB/>", "does not have filteredPersistenceAdapters, and so no store"),
    "two": (
        '<mKahaDB><filteredPersistenceAdapters><filteredKahaDB/><filteredKahaDB perDestination="true"/>'
        "</filteredPersistenceAdapters></mKahaDB>",
        "two stores have neither queue nor topic; put their patterns into one",
    ),
    "pattern": (
        '<mKahaDB><filteredPersistenceAdapters><filteredKahaDB queue=" "/></filteredPersistenceAdapters>'
        "</mKahaDB>",
        "a destination needs a name",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_has_a_place_and_a_cure(tmp_path: Path, what: str) -> None:
    adapter, told = WRONG[what]

    with pytest.raises(ConfigurationError) as raised:
        load(tmp_path, adapter)

    assert told in str(raised.value)
    assert str(raised.value).startswith(f"{tmp_path}/activemq.xml:3")
    assert len(str(raised.value).splitlines()) == 1


def test_old_messages_are_told_of(tmp_path: Path) -> None:
    (tmp_path / "db.data").touch()

    notes = load(tmp_path, f'<kahaDB directory="{tmp_path}"/>').notes

    [note] = [note for note in notes if note.kind is Kind.DANGEROUS and "another format" in note.text]
    assert "jdbcstore import kahadb:FOLDER" in note.text
    assert not any("another format" in note.text for note in load(tmp_path, "<kahaDB/>").notes)


def test_no_two_names_share_a_folder() -> None:
    names = [
        "queue://A.B",
        "queue://a.b",
        "queue://A/B",
        "queue://A_B",
        "topic://A.B",
        "queue://" + "x" * 240,
    ]

    assert len({folder_name(name).lower() for name in names}) == len(names)
    assert all(len(folder_name(name)) < 90 and "/" not in folder_name(name) for name in names)
    assert folder_name("queue://ORDERS.EU").startswith("queue_ORDERS.EU-")

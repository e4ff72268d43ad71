"""``copy`` and ``audit``."""

from __future__ import annotations

from pathlib import Path

import jdbcstore
from jdbcstore import Message
from tests.cli.conftest import Invoke


def test_copy_and_audit(invoke: Invoke, tmp_path: Path) -> None:
    here, there = (f"sqlite:///{tmp_path / name}.db" for name in ("here", "there"))
    with jdbcstore.open(here) as store:
        ids = [store.queue("Q").add_message(Message(f"{n}")).sequence for n in range(30)]
    file = tmp_path / "there.toml"
    file.write_text(f'url = "{there}"\n')

    copied = invoke("copy", here, str(file), "--json").json
    assert (copied["copied"], copied["same"]) == (30, True)
    assert copied["left"]["checksum"] == copied["right"]["checksum"]

    same = invoke("audit", here, there)
    assert same.code == 0
    assert "Identical" in same.out

    with jdbcstore.open(there) as store:
        store.queue("Q").acknowledge(*ids[:25])
        store.queue("NEW").add_message(Message("new"))
    differing = invoke("audit", here, there)
    assert differing.code == 1
    assert f"missing   message {ids[0]} of queue://Q" in differing.out
    assert "missing 25, extra 1, different 0" in differing.out
    assert "there are 6 more differences" in differing.err

    result = invoke("audit", here, there, "--json")
    assert result.code == 1
    *differences, totals = result.lines
    assert [one["id"] for one in differences[:25]] == ids[:25]
    assert {key: totals[key] for key in ("same", "missing", "extra", "different")} == {
        "same": False,
        "missing": 25,
        "extra": 1,
        "different": 0,
    }
    assert invoke("copy", here, there).code == 1
    assert invoke("copy", here, there).err.startswith("jdbcstore: ")


def test_places_are_named_by_the_arguments_only(invoke: Invoke) -> None:
    refused = invoke("audit", "sqlite:///a.db", "sqlite:///b.db", "--url", "sqlite:///c.db")
    assert (refused.code, "omit --url" in refused.err) == (2, True)
    missing = invoke("audit", "sqlite:///a.db", "b.toml")
    assert (missing.code, "cannot read b.toml" in missing.err) == (3, True)

"""The models: their properties hold, and need what the product does.

``tests/long/FINDINGS.md`` lists what is modelled, within which bounds, and how many states that are.
"""

from __future__ import annotations

import pytest

from tests.model.conftest import Compiled

pytestmark = pytest.mark.xdist_group("models")

# By model, the bounds that are explored, with the least number of states that this takes. The comments at
# the beginning of each model name the bounds.
EXPLORED: dict[str, dict[tuple[int, ...], int]] = {
    "commit": {(1, 2, 2, 1, 1): 100_000, (2, 2, 1, 1, 0): 300_000, (2, 3, 0, 1, 1): 300_000},
    "claims": {
        (1, 1, 1, 1, 0): 100_000,
        (1, 1, 1, 0, 1): 200_000,
        (2, 0, 1, 1, 0): 150_000,
        (1, 1, 1, 0, 0, 1): 150_000,
    },
    "flow": {
        (1, 1, 0, 0, 0, 1, 1, 0): 200_000,
        (1, 0, 1, 0, 1, 2, 2, 0): 100_000,
        (1, 0, 0, 2, 0, 0, 1, 2): 50_000,
    },
    "mastership": {(2, 1, 0, 0, 1): 200_000, (2, 1, 1, 0, 0): 200_000, (1, 1, 0, 1, 0): 30_000},
    "turns": {(3, 1, 0, 0, 0): 300_000, (1, 1, 1, 1, 1): 100_000, (2, 1, 0, 1, 0): 100_000},
}

# By model and mutation: bounds that suffice, and the property that is violated.
MUTATIONS: dict[str, dict[str, tuple[tuple[int, ...], str]]] = {
    "commit": {
        "ENDS_NO_SESSION": ((1, 2, 2, 1, 1), "pages"),
        "FINDS_NOTHING": ((1, 2, 2, 1, 1), "once"),
        "ANSWERS_EARLY": ((1, 1, 0, 0, 0), "durable"),
        "KEEPS_IDS": ((1, 2, 2, 1, 1), "pages"),
        "GUARDS_NO_BLOCK": ((2, 2, 0, 0, 0), "pages"),
        "LOCKS_NO_BLOCK": ((2, 2, 0, 0, 0), "pages"),
        "GIVES_BACK_ALWAYS": ((2, 3, 0, 1, 1), "pages"),
        "FAILS_IN_DOUBT": ((1, 2, 2, 1, 1), "once"),
        "FORGETS_UNITS": ((1, 2, 2, 1, 1), "end"),
        "REMOVES_ELSEWHERE": ((2, 2, 1, 0, 1), "pages"),
        "FOLLOWS_ANYTHING": ((1, 2, 1, 0, 0), "once"),
        "BELIEVES_WHAT_FOLLOWS": ((1, 2, 1, 0, 0), "durable"),
    },
    "claims": {
        "TAKES_TWICE": ((1, 0, 0, 0, 0), "alone"),
        "SETTLES_ANY": ((1, 0, 1, 1, 0), "leased"),
        "SETTLES_LATE": ((1, 0, 1, 0, 0), "leased"),
        "LOCKS_NOTHING": ((1, 0, 1, 0, 0), "leased"),
        "RETURNS_ANY": ((1, 1, 1, 0, 0), "leased"),
        "HOLDS_BY_ID": ((1, 1, 1, 1, 0), "free"),
        "ENDS_NO_SESSION": ((1, 1, 0, 0, 0), "free"),
        "COUNTS_NO_DEATH": ((1, 0, 1, 0, 0), "marked"),
        "FORGETS_ANSWER": ((1, 1, 0, 0, 0), "free"),
        "LOSES_QUIETLY": ((1, 0, 1, 1, 0), "free"),
        "DROPS_UNCOUNTED": ((1, 0, 1, 0, 1), "marked"),
        "JOINS_ANY": ((1, 0, 1, 0, 0, 1), "leased"),
        "JOINS_UNLOCKED": ((1, 0, 1, 0, 0, 1), "leased"),
    },
    "flow": {
        "COUNTS_FIRST": ((1, 0, 0, 0, 0, 1, 0, 0), "limit"),
        "CLAIMS_UNSEEN": ((1, 0, 0, 0, 0, 1, 0, 0), "limit"),
        "WRITES_NO_ROW": ((1, 0, 0, 0, 0, 1, 0, 0), "limit"),
        "COUNTS_NO_LATE": ((1, 1, 0, 0, 0, 1, 1, 0), "limit"),
        "COUNTS_NO_KEYS": ((1, 0, 0, 0, 0, 0, 3, 0), "key"),
        "TAKES_FREE_ONES": ((1, 0, 0, 0, 0, 0, 2, 0), "order"),
        "DRAWS_ONCE": ((2, 0, 0, 0, 0, 0, 0, 2), "rate"),
        "FORGETS_TURN": ((2, 0, 0, 0, 0, 0, 1, 0), "share"),
        "NOTES_EARLY": ((2, 0, 0, 0, 1, 0, 1, 0), "found"),
        "SEES_NOTHING_NEW": ((1, 0, 0, 0, 0, 0, 1, 0), "found"),
        "LOCKS_NO_SETTING": ((1, 0, 1, 0, 0, 0, 0, 0), "pause"),
        "SKIPS_LOCKED": ((1, 1, 0, 0, 0, 0, 2, 0), "order"),
    },
    "mastership": {
        "GUARDS_NO_EPOCH": ((1, 1, 0, 1, 0), "fenced"),
        "GUARDS_NO_HOLDER": ((1, 1, 0, 1, 0), "epoch"),
        "LOCKS_NO_EPOCH": ((2, 1, 0, 0, 1), "fenced"),
        "REUSES_EPOCH": ((2, 1, 0, 0, 1), "epoch"),
        "BELIEVES_TOO_LONG": ((2, 1, 1, 0, 0), "single"),
        "LOOKS_FIRST": ((2, 1, 0, 0, 1), "apart"),
        "LOOKS_NEVER": ((2, 1, 0, 0, 1), "apart"),
    },
    "turns": {
        "HANDS_NOTHING_OVER": ((2, 1, 0, 0, 0), "end"),
        "ENDS_AS_LEADER": ((3, 1, 0, 0, 0), "end"),
        "LOOKS_FIRST": ((2, 1, 0, 0, 0), "end"),
        "LEADS_IN_MAIN": ((1, 1, 1, 0, 1), "end"),
        "RELIES_ON_MAIN": ((1, 1, 1, 0, 1), "end"),
        "LEADS_AT_ONCE": ((2, 1, 0, 0, 0), "flushed"),
        "TAKES_FUTURES": ((2, 1, 0, 1, 0), "callbacks"),
        "STEPS_IN": ((2, 1, 0, 1, 0), "kept"),
        "CLOSES_AT_ONCE": ((1, 1, 0, 0, 0), "flushed"),
    },
}


# The same of the model with nodes of a cluster, which is compiled apart.
ON_NODES: dict[tuple[int, ...], int] = {(2, 1, 0, 0, 0): 500_000}
MUTATIONS_ON_NODES: dict[str, tuple[tuple[int, ...], str]] = {"GUARDS_READ": ((2, 1, 0, 0, 0), "fenced")}


@pytest.mark.parametrize(
    ("name", "bounds"), [(name, bounds) for name in EXPLORED for bounds in EXPLORED[name]]
)
def test_the_properties_hold(compiled: Compiled, name: str, bounds: tuple[int, ...]) -> None:
    verdict = compiled(name).check(bounds)
    assert verdict.violated is None
    assert verdict.states >= EXPLORED[name][bounds]


@pytest.mark.parametrize(
    ("name", "mutation"), [(name, mutation) for name in MUTATIONS for mutation in MUTATIONS[name]]
)
def test_a_mutation_violates_a_property(compiled: Compiled, name: str, mutation: str) -> None:
    bounds, violated = MUTATIONS[name][mutation]
    assert compiled(name).check(bounds, mutation).violated == violated


@pytest.mark.parametrize("bounds", ON_NODES)
def test_the_properties_hold_on_the_nodes_of_a_cluster(compiled: Compiled, bounds: tuple[int, ...]) -> None:
    verdict = compiled("mastership", NODES=2).check(bounds)
    assert verdict.violated is None
    assert verdict.states >= ON_NODES[bounds]


@pytest.mark.parametrize("mutation", MUTATIONS_ON_NODES)
def test_a_mutation_violates_a_property_on_the_nodes_of_a_cluster(compiled: Compiled, mutation: str) -> None:
    bounds, violated = MUTATIONS_ON_NODES[mutation]
    assert compiled("mastership", NODES=2).check(bounds, mutation).violated == violated


@pytest.mark.parametrize("name", MUTATIONS)
def test_every_mutation_is_tried(compiled: Compiled, name: str) -> None:
    on_nodes = {*MUTATIONS_ON_NODES} if name == "mastership" else set()
    assert {*compiled(name).mutations} == {*MUTATIONS[name]} | on_nodes

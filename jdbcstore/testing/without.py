"""Reasons for which a case is not run with a journal in front, or in one store of several."""

from __future__ import annotations

import pytest

ONE_STORE = pytest.mark.without(
    "journaled", "filtered", "filtered-topics", why="a journal's directory is one store's"
)
NO_WAITING = pytest.mark.without("journaled", why="who writes waits for the journal alone")
IN_THE_JOURNAL = pytest.mark.without("journaled", why="this is done in the journal, and never in the tables")
TABLES_ALONE = pytest.mark.without(
    "journaled", "filtered", "filtered-topics", why="emptying the tables does not empty a journal"
)
REFERENCES = pytest.mark.without("quick", why="the rows are references, and not messages")
TOPICS_ELSEWHERE = pytest.mark.without(
    "filtered", why="its topics are not in this database; run as filtered-topics"
)

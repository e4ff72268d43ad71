"""A tree of folders of ActiveMQ's AMQ message store as a source."""

from __future__ import annotations

import re

from jdbcstore.tools.importing.amq.store import CONTROL, AmqStore
from jdbcstore.tools.importing.folders import FolderSource


class AmqSource(FolderSource):
    """The AMQ stores of a tree."""

    WHAT = "data files of the AMQ store, journal/data-1 and so on"
    LOCKS = ("lock", CONTROL)
    APART = re.compile("kr-store|archive")
    STORE = AmqStore

"""The contract suite: what every store must do, as tests for the author of a store or of an adapter.

A fixture ``provider`` in the author's ``conftest.py`` returns a :class:`Provider`, as docs/guide/testing.md
shows, and ``pytest --pyargs jdbcstore.testing.contract`` runs the suite, which needs the extra ``testing``.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("jdbcstore.testing.contract", "jdbcstore.testing.machine")

from jdbcstore.testing.clock import FakeClock  # noqa: E402
from jdbcstore.testing.provider import Capabilities, OpenStore, Provider  # noqa: E402
from jdbcstore.testing.tables import RawTables  # noqa: E402

__all__ = ["Capabilities", "FakeClock", "OpenStore", "Provider", "RawTables"]

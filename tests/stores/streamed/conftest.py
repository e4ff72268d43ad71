from __future__ import annotations

from itertools import count

import pytest

_numbers = count(1)


@pytest.fixture
def name() -> str:
    """The name of a stream that no other test uses."""
    return f"test-{next(_numbers)}"

"""The core: what turns fields into bytes and back for every message, compiled where that was possible.

``core`` is the module to use: the compiled one if it was built from the files that are here, else ``source``.
Without a compiler everything works, slower. ``JDBCSTORE_PURE=1`` in the environment chooses ``source``.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from jdbcstore.util.core.build import checksum

log = logging.getLogger(__name__)

BUILD = "compiled"
"""Which one is in use, and if it is not the compiled one, why."""

if TYPE_CHECKING:
    from jdbcstore.util.core import source as core
else:
    if os.environ.get("JDBCSTORE_PURE", "") not in ("", "0"):
        BUILD = "Python, because JDBCSTORE_PURE is set"
    else:
        try:
            from jdbcstore.util.core import compiled as core
        except ImportError:
            BUILD = "Python; python -m jdbcstore.util.core compiles it"
        else:
            if checksum() != core.SOURCE:
                BUILD = "Python: the compiled core is of another version; build it again, or remove it"
                log.warning("the core in use is %s: %s", BUILD, core.__file__)
    if BUILD != "compiled":
        from jdbcstore.util.core import source as core

__all__ = ["BUILD", "core"]

"""The choice between a hot module as Python and compiled.

Each module named ``*_cy.py`` turns fields into bytes, or back, for every message. It runs as it is, and
compiled (:mod:`jdbcstore.util.core.build`), with the same results: it ends with :func:`use_compiled`. Without
a compiler everything works, slower. ``JDBCSTORE_PURE=1`` in the environment chooses Python.
"""

from __future__ import annotations

import importlib
import logging
import os
from pathlib import Path
from typing import Any

from jdbcstore.util.core.build import checksum, compiled_name, extension_of, sources

log = logging.getLogger(__name__)

_BUILD_IT = "python -m jdbcstore.util.core compiles it"
_STALE = "the compiled core is of another version; build it again, or remove it"


def use_compiled(module: dict[str, Any]) -> None:
    """Replace the names of a module, which are its globals, by those of its compiled version.

    Nothing is replaced if there is none, or if it was built from another source.
    """
    if is_pure():
        return
    try:
        compiled = importlib.import_module(compiled_name(module["__name__"]))
    except ImportError:
        return
    if checksum(Path(module["__file__"])) != compiled.SOURCE:
        log.warning("%s runs as Python: %s: %s", module["__name__"], _STALE, compiled.__file__)
        return
    module.update({name: value for name, value in vars(compiled).items() if not name.startswith("__")})


def is_pure() -> bool:
    """Return whether the environment chooses Python."""
    return os.environ.get("JDBCSTORE_PURE", "") not in ("", "0")


def in_use() -> str:
    """Return ``compiled`` if all hot modules are, or why they are not; imports none of them."""
    if is_pure():
        return "Python, because JDBCSTORE_PURE is set"
    for source in sources():
        extension = extension_of(source)
        if not extension.exists():
            return f"Python; {_BUILD_IT}"
        if checksum(source).encode() not in extension.read_bytes():
            return f"Python: {_STALE}"
    return "compiled"

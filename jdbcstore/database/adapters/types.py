"""A column type in the user's own words."""

from __future__ import annotations

from typing import Any

from sqlalchemy.ext.compiler import compiles
from sqlalchemy.types import String, TypeDecorator, TypeEngine


class Worded(TypeDecorator[Any]):
    """A vendor's type in every statement, and the user's text where a table is made."""

    impl: TypeEngine[Any] | type[TypeEngine[Any]] = String
    cache_ok = True

    def __init__(self, base: TypeEngine[Any], text: str) -> None:
        super().__init__()
        self.impl = base
        self.text = text


@compiles(Worded)
def _write(type_: Worded, _compiler: Any, **_options: Any) -> str:
    return type_.text

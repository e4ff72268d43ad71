"""The broker's ``ioExceptionHandler``."""

from __future__ import annotations

from dataclasses import fields

from jdbcstore.config.fields import find_field
from jdbcstore.config.given import Given, Kind, Section
from jdbcstore.config.io_handler import (
    DefaultIOExceptionHandlerConfig,
    IOExceptionHandlerConfig,
    LeaseLockerIOExceptionHandlerConfig,
)
from jdbcstore.config.xml.beans import Document, Value

_KINDS: dict[str, type[IOExceptionHandlerConfig]] = {
    "defaultIOExceptionHandler": DefaultIOExceptionHandlerConfig,
    "leaseLockerIOExceptionHandler": LeaseLockerIOExceptionHandlerConfig,
    # The older name of the same.
    "jDBCIOExceptionHandler": LeaseLockerIOExceptionHandlerConfig,
}


def read_io_handler(document: Document, value: Value) -> Section | None:
    """The section of a handler; None where it is one of the user's own."""
    bean = document.referred(value)
    if bean is None:
        raise document.wrong(value.line, "a handler or a reference to one is needed", "ioExceptionHandler")
    kind = _KINDS.get(bean.kind)
    if kind is None:
        text = f"{bean.kind} is a handler of your own, in Java: the default is used; choose one of"
        document.note(Kind.UNKNOWN, bean.line, bean.kind, f"{text} {', '.join(_KINDS)}")
        return None
    section: Section = {"type": Given(kind.type, document.place(bean.line, bean.kind))}
    for name, inner in bean.values.items():
        if find_field(kind, name):
            section[name] = document.scalar(name, inner)
        else:
            document.tell(bean, name, inner, {}, (one.name for one in fields(kind)))
    return section

"""Branches of distributed transactions, as a transaction manager has them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Any, Self

import jpype

from tests.support.broker.openwire.jms import Jms, activemq

_NUMBERS = count(1)
START, SUCCESS = 0, 0x4000000
RECOVER = 0x1000000
ONE_PHASE, TWO_PHASES = True, False
XA_OK, XA_RDONLY = 0, 3
NOT_KNOWN = -4


def new_xid() -> Any:
    xid = activemq("command.XATransactionId")()
    xid.setFormatId(86)
    xid.setGlobalTransactionId(jpype.JArray(jpype.JByte)([1, 2, next(_NUMBERS)]))
    xid.setBranchQualifier(jpype.JArray(jpype.JByte)([9]))
    return xid


class Branch:
    """The work of one branch, from start to end, with an XA session."""

    def __init__(self, client: Jms) -> None:
        self.xid = new_xid()
        self._client = client
        self.resource = client.session.getXAResource()

    def __enter__(self) -> Self:
        self.resource.start(self.xid, START)
        return self

    def __exit__(self, *_exc: object) -> None:
        self.resource.end(self.xid, SUCCESS)

    def is_among(self, xids: Iterable[Any]) -> bool:
        return any(xid.equals(self.xid) for xid in xids)

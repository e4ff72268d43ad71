"""The Java exceptions that ActiveMQ's clients expect for the errors of this library."""

from __future__ import annotations

from jdbcstore.broker.openwire.commands import Throwable
from jdbcstore.errors import (
    ClientIdInUse,
    DestinationFull,
    InvalidDestination,
    InvalidMessage,
    InvalidSelector,
    NotAuthorized,
    ProtocolError,
    StoreError,
    SubscriptionNotFound,
    TransactionError,
    TransactionNotFound,
)
from jdbcstore.message.ids import XATransactionId

_EXCEPTIONS: tuple[tuple[type[BaseException], str], ...] = (
    (ClientIdInUse, "javax.jms.InvalidClientIDException"),
    (NotAuthorized, "java.lang.SecurityException"),
    (InvalidSelector, "javax.jms.InvalidSelectorException"),
    (InvalidDestination, "javax.jms.InvalidDestinationException"),
    (SubscriptionNotFound, "javax.jms.InvalidDestinationException"),
    (InvalidMessage, "javax.jms.MessageFormatException"),
    (DestinationFull, "javax.jms.ResourceAllocationException"),
    (TransactionError, "javax.jms.TransactionRolledBackException"),
)
_XA = "javax.transaction.xa.XAException"
# What a client reads of an XAException is its message, and in that this.
_XA_CODE = " xaErrorCode:"
_NOT_KNOWN, _ROLLED_BACK, _RESOURCE_ERROR = -4, 100, -3


class BranchFailed(TransactionError):
    """A command for a distributed transaction that has failed."""

    def __init__(self, xid: XATransactionId, cause: BaseException) -> None:
        code = _RESOURCE_ERROR
        if isinstance(cause, TransactionNotFound):
            code = _NOT_KNOWN
        elif isinstance(cause, TransactionError):
            code = _ROLLED_BACK
        super().__init__(f"{xid}: {cause}{_XA_CODE}{code}")


class FromEarlierConnection(ProtocolError):
    """An acknowledgement of messages that an earlier connection brought: the client has to reconnect.

    In a local transaction it ends the connection when the client commits, without an answer: on ``failover:``
    it then takes the commit for one in doubt, and rolls back.
    """

    def __init__(self) -> None:
        refused = "an acknowledgement has messages of an earlier connection; reconnect to get all again"
        super().__init__(refused, fatal=True)


def throwable(error: BaseException, text: str) -> Throwable:
    """Return the exception that a client throws.

    :param text: what the client may know of the error
    """
    if isinstance(error, BranchFailed):
        return Throwable(_XA, text)
    for kind, name in _EXCEPTIONS:
        if isinstance(error, kind):
            return Throwable(name, text)
    if isinstance(error, ProtocolError) and error.fatal:
        return Throwable("java.io.IOException", text)
    return Throwable(
        "javax.jms.JMSException" if isinstance(error, StoreError) else "java.io.IOException", text
    )

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
# A client reads this code from the message of an XAException.
_XA_CODE = " xaErrorCode:"
_NOT_KNOWN, _ROLLED_BACK, _RESOURCE_ERROR = -4, 100, -3


class BranchFailed(TransactionError):
    """A command for a distributed transaction failed."""

    def __init__(self, xid: XATransactionId, cause: BaseException) -> None:
        code = _RESOURCE_ERROR
        if isinstance(cause, TransactionNotFound):
            code = _NOT_KNOWN
        elif isinstance(cause, TransactionError):
            code = _ROLLED_BACK
        super().__init__(f"{xid}: {cause}{_XA_CODE}{code}")


class FromEarlierConnection(ProtocolError):
    """An acknowledgement of messages of an earlier connection, after which the client must reconnect.

    In a local transaction it ends the connection at the commit, without an answer. On ``failover:`` the
    client then treats the commit's outcome as unknown, and rolls back.
    """

    def __init__(self) -> None:
        refused = (
            "an acknowledgement has messages of an earlier connection; reconnect to get all messages again"
        )
        super().__init__(refused, fatal=True)


def throwable(error: BaseException, text: str) -> Throwable:
    """Return the exception that a client throws.

    :param text: the description for the client
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

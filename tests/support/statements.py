"""The statements of ActiveMQ 5.17.2 as its own Statements class returns them, but for runs of blanks."""

_OF_SUB = "CONTAINER=? AND CLIENT_ID=? AND SUB_NAME=?"
_JOINED = (
    "FROM ACTIVEMQ_MSGS M, ACTIVEMQ_ACKS D"
    " WHERE D.CONTAINER=? AND D.CLIENT_ID=? AND D.SUB_NAME=? AND M.CONTAINER=D.CONTAINER"
)

ACTIVEMQ_STATEMENTS = {
    "addMessageStatement": (
        "INSERT INTO ACTIVEMQ_MSGS(ID, MSGID_PROD, MSGID_SEQ, CONTAINER, EXPIRATION, PRIORITY, MSG, XID)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
    ),
    "updateMessageStatement": (
        "UPDATE ACTIVEMQ_MSGS SET MSG=? WHERE MSGID_PROD=? AND MSGID_SEQ=? AND CONTAINER=?"
    ),
    "removeMessageStatment": "DELETE FROM ACTIVEMQ_MSGS WHERE ID=?",
    "findMessageSequenceIdStatement": (
        "SELECT ID, PRIORITY FROM ACTIVEMQ_MSGS WHERE MSGID_PROD=? AND MSGID_SEQ=? AND CONTAINER=?"
    ),
    "findMessageStatement": "SELECT MSG FROM ACTIVEMQ_MSGS WHERE MSGID_PROD=? AND MSGID_SEQ=?",
    "findMessageByIdStatement": "SELECT MSG FROM ACTIVEMQ_MSGS WHERE ID=?",
    "findXidByIdStatement": "SELECT XID FROM ACTIVEMQ_MSGS WHERE ID=?",
    "findAllMessagesStatement": "SELECT ID, MSG FROM ACTIVEMQ_MSGS WHERE CONTAINER=? ORDER BY ID",
    "findAllMessageIdsStatement": "SELECT ID, MSGID_PROD, MSGID_SEQ FROM ACTIVEMQ_MSGS ORDER BY ID DESC",
    "findLastSequenceIdInMsgsStatement": "SELECT MAX(ID) FROM ACTIVEMQ_MSGS",
    "findLastSequenceIdInAcksStatement": "SELECT MAX(LAST_ACKED_ID) FROM ACTIVEMQ_ACKS",
    "lastProducerSequenceIdStatement": "SELECT MAX(MSGID_SEQ) FROM ACTIVEMQ_MSGS WHERE MSGID_PROD=?",
    "createDurableSubStatement": (
        "INSERT INTO ACTIVEMQ_ACKS"
        "(CONTAINER, CLIENT_ID, SUB_NAME, SELECTOR, LAST_ACKED_ID, SUB_DEST, PRIORITY)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)"
    ),
    "findDurableSubStatement": f"SELECT SELECTOR, SUB_DEST FROM ACTIVEMQ_ACKS WHERE {_OF_SUB}",
    "findAllDurableSubsStatement": (
        "SELECT SELECTOR, SUB_NAME, CLIENT_ID, SUB_DEST FROM ACTIVEMQ_ACKS WHERE CONTAINER=? AND PRIORITY=0"
    ),
    "deleteSubscriptionStatement": f"DELETE FROM ACTIVEMQ_ACKS WHERE {_OF_SUB}",
    "findAllDurableSubMessagesStatement": (
        f"SELECT M.ID, M.MSG {_JOINED} AND M.ID > D.LAST_ACKED_ID ORDER BY M.PRIORITY DESC, M.ID"
    ),
    "findDurableSubMessagesStatement": (
        f"SELECT M.ID, M.MSG {_JOINED.replace('AND M.CON', 'AND M.XID IS NULL AND M.CON')}"
        " AND M.ID > D.LAST_ACKED_ID AND M.ID > ? ORDER BY M.ID"
    ),
    "findDurableSubMessagesByPriorityStatement": (
        f"SELECT M.ID, M.MSG {_JOINED.replace('AND M.CON', 'AND M.XID IS NULL AND M.CON')}"
        " AND M.PRIORITY=D.PRIORITY AND M.ID > D.LAST_ACKED_ID AND M.ID > ? AND M.PRIORITY = ? ORDER BY M.ID"
    ),
    "nextDurableSubscriberMessageStatement": f"SELECT M.ID, M.MSG {_JOINED} AND M.ID > ? ORDER BY M.ID ",
    "durableSubscriberMessageCountStatement": (
        f"SELECT COUNT(*) {_JOINED} AND M.ID >"
        " ( SELECT LAST_ACKED_ID FROM ACTIVEMQ_ACKS WHERE CONTAINER=D.CONTAINER AND CLIENT_ID=D.CLIENT_ID"
        " AND SUB_NAME=D.SUB_NAME )"
    ),
    "durableSubscriberMessageCountStatementWithPriority": (
        f"SELECT COUNT(*) {_JOINED} AND M.PRIORITY=D.PRIORITY AND M.ID > D.LAST_ACKED_ID"
    ),
    "lastAckedDurableSubscriberMessageStatement": (
        f"SELECT MAX(LAST_ACKED_ID) FROM ACTIVEMQ_ACKS WHERE {_OF_SUB}"
    ),
    "destinationMessageCountStatement": (
        "SELECT COUNT(*) FROM ACTIVEMQ_MSGS WHERE CONTAINER=? AND XID IS NULL"
    ),
    "findNextMessagesStatement": (
        "SELECT ID, MSG FROM ACTIVEMQ_MSGS WHERE CONTAINER=? AND ID < ? AND ID > ? AND XID IS NULL"
        " ORDER BY ID"
    ),
    "findNextMessagesByPriorityStatement": (
        "SELECT ID, MSG FROM ACTIVEMQ_MSGS WHERE CONTAINER=? AND XID IS NULL AND ID < ?  AND ("
        " (ID > ? AND PRIORITY = 9)    "
        " OR (ID > ? AND PRIORITY = 8)"
        " OR (ID > ? AND PRIORITY = 7)"
        " OR (ID > ? AND PRIORITY = 6)"
        " OR (ID > ? AND PRIORITY = 5)"
        " OR (ID > ? AND PRIORITY = 4)"
        " OR (ID > ? AND PRIORITY = 3)"
        " OR (ID > ? AND PRIORITY = 2)"
        " OR (ID > ? AND PRIORITY = 1)"
        " OR (ID > ? AND PRIORITY = 0)"
        " ) ORDER BY PRIORITY DESC, ID"
    ),
    "findAllDestinationsStatement": (
        "SELECT DISTINCT CONTAINER FROM ACTIVEMQ_MSGS WHERE CONTAINER IS NOT NULL"
        " UNION SELECT DISTINCT CONTAINER FROM ACTIVEMQ_ACKS"
    ),
    "removeAllMessagesStatement": "DELETE FROM ACTIVEMQ_MSGS WHERE CONTAINER=?",
    "removeAllSubscriptionsStatement": "DELETE FROM ACTIVEMQ_ACKS WHERE CONTAINER=?",
    "deleteOldMessagesStatementWithPriority": (
        "DELETE FROM ACTIVEMQ_MSGS WHERE (PRIORITY=? AND ID <= ( SELECT min(ACTIVEMQ_ACKS.LAST_ACKED_ID)"
        " FROM ACTIVEMQ_ACKS WHERE ACTIVEMQ_ACKS.CONTAINER=ACTIVEMQ_MSGS.CONTAINER"
        " AND ACTIVEMQ_ACKS.PRIORITY=?) )"
    ),
    "updateDurableLastAckStatement": f"UPDATE ACTIVEMQ_ACKS SET LAST_ACKED_ID=?, XID = NULL WHERE {_OF_SUB}",
    "updateDurableLastAckWithPriorityStatement": (
        f"UPDATE ACTIVEMQ_ACKS SET LAST_ACKED_ID=?, XID = NULL WHERE {_OF_SUB} AND PRIORITY=?"
    ),
    "updateDurableLastAckInTxStatement": f"UPDATE ACTIVEMQ_ACKS SET XID=? WHERE {_OF_SUB}",
    "updateDurableLastAckWithPriorityInTxStatement": (
        f"UPDATE ACTIVEMQ_ACKS SET XID=? WHERE {_OF_SUB} AND PRIORITY=?"
    ),
    "clearDurableLastAckInTxStatement": f"UPDATE ACTIVEMQ_ACKS SET XID = NULL WHERE {_OF_SUB} AND PRIORITY=?",
    "updateLastPriorityAckRowOfDurableSubStatement": (
        f"UPDATE ACTIVEMQ_ACKS SET LAST_ACKED_ID=? WHERE {_OF_SUB} AND PRIORITY=?"
    ),
    "selectDurablePriorityAckStatement": (
        f"SELECT LAST_ACKED_ID FROM ACTIVEMQ_ACKS WHERE {_OF_SUB} AND PRIORITY = ?"
    ),
    "insertDurablePriorityAckStatement": (
        "INSERT INTO ACTIVEMQ_ACKS(CONTAINER, CLIENT_ID, SUB_NAME, PRIORITY) VALUES (?, ?, ?, ?)"
    ),
    "updateXidFlagStatement": "UPDATE ACTIVEMQ_MSGS SET XID = ? WHERE ID = ?",
    "clearXidFlagStatement": "UPDATE ACTIVEMQ_MSGS SET XID = NULL, ID = ? WHERE ID = ?",
    "findOpsPendingOutcomeStatement": (
        "SELECT ID, XID, MSG FROM ACTIVEMQ_MSGS WHERE XID IS NOT NULL ORDER BY ID"
    ),
    "findAcksPendingOutcomeStatement": (
        "SELECT XID, CONTAINER, CLIENT_ID, SUB_NAME FROM ACTIVEMQ_ACKS WHERE XID IS NOT NULL"
    ),
    "lockCreateStatement": "SELECT * FROM ACTIVEMQ_LOCK FOR UPDATE",
    "lockUpdateStatement": "UPDATE ACTIVEMQ_LOCK SET TIME = ? WHERE ID = 1",
    "leaseObtainStatement": (
        "UPDATE ACTIVEMQ_LOCK SET BROKER_NAME=?, TIME=? WHERE (TIME IS NULL OR TIME < ?) AND ID = 1"
    ),
    "leaseUpdateStatement": "UPDATE ACTIVEMQ_LOCK SET BROKER_NAME=?, TIME=? WHERE BROKER_NAME=? AND ID = 1",
    "leaseOwnerStatement": "SELECT BROKER_NAME, TIME FROM ACTIVEMQ_LOCK WHERE ID = 1",
    "currentDateTimeStatement": "SELECT CURRENT_TIMESTAMP FROM ACTIVEMQ_LOCK",
}

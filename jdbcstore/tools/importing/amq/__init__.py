"""The files of ActiveMQ's AMQ message store: the journal, and the subscriptions of its reference store."""

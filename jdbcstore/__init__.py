"""A relational message store on ActiveMQ's own tables."""

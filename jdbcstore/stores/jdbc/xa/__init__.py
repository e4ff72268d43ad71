"""XA transactions on ActiveMQ's tables."""

"""STOMP 1.0, 1.1 and 1.2 in ActiveMQ's dialect: a connector for a broker."""

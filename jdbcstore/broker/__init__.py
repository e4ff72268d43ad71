"""A message broker on a store: STOMP clients, queues and topics, one event loop."""

"""Topics: non-durable subscribers, durable subscriptions, and retained messages."""

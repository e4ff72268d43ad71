"""Clock, futures and retries: what every layer uses and none owns."""

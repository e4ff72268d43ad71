"""The store in other people's brokers."""

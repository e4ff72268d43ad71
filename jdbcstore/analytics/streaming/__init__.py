"""Structured Streaming: new messages of a store, each once."""

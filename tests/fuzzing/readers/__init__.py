"""What is fuzzed: each reader, and what must hold of whatever it reads."""

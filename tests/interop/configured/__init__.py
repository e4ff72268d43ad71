"""Configuration files, put to the real brokers and to ours."""

"""What the store does per second, beside the raw limits of the same database in the same run."""

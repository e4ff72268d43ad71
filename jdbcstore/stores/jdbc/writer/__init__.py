"""Group commit: the thread that writes what callers queue."""

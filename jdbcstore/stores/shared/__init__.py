"""What the stores have in common."""

"""Parts that several stores are built from."""

"""Read models in Redis."""

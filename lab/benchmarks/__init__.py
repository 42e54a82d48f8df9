"""How fast services and schedulers are. Runs from a checkout."""

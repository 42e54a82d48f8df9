"""The log in memory, and stages that run over it."""

"""A Redis that loses what one system had in it. Others have theirs in the same server."""

import redis


def lose(client: redis.Redis, namespace: str) -> None:
    """Delete all keys of a namespace at once."""
    client.delete(*client.keys(f"{namespace}.*"))

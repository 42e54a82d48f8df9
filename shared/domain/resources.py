"""What nodes have beside cores and memory: kinds by name, each a whole number (GPUs, licences)."""

from collections.abc import Mapping

from shared.domain.bounds import LENGTHS, RESOURCES
from shared.domain.checks import require_text

# Kinds with their counts, in the order of their names: equal where the same is meant.
Resources = tuple[tuple[str, int], ...]


def resources_of(counts: Mapping[str, int]) -> Resources:
    """The counts by name; a count of 0 says nothing and is left out."""
    return tuple(sorted((name, count) for name, count in counts.items() if count))


def require_resources(field: str, resources: Resources) -> None:
    """Raise RejectedError for names or counts that no node has."""
    LENGTHS["resources"].require(field, len(resources))
    for name, count in resources:
        require_text(field, name, limit=64)
        RESOURCES.require(field, count)

"""What nodes have beside cores and memory: kinds by name, each a whole number (GPUs, licences)."""

from collections.abc import Mapping
from typing import Final

from coplace_client.bounds import LENGTHS, LICENCES, RESOURCES, TDP_W, Bound, Length
from coplace_client.checks import require_text
from coplace_client.errors import RejectedError

# The longest name of a kind, characters.
MOST_NAME: Final = 64
# Kinds with their counts, in the order of their names: equal where the same is meant.
Resources = tuple[tuple[str, int], ...]
# Thermal design power of one of a kind, W, in the order of their names.
DesignPowers = tuple[tuple[str, float], ...]


def resources_of(counts: Mapping[str, int]) -> Resources:
    """Return the counts by name; a count of 0 says nothing and is left out."""
    return tuple(sorted((name, count) for name, count in counts.items() if count))


def require_resources(field: str, resources: Resources) -> None:
    """Raise RejectedError for names or counts that no node has."""
    _require(field, resources, LENGTHS["resources"], RESOURCES)


def require_licences(field: str, licences: Resources) -> None:
    """Raise RejectedError for names or counts of licences that nobody has."""
    _require(field, licences, LENGTHS["licences"], LICENCES)


def _require(field: str, counts: Resources, names: Length, each: Bound) -> None:
    names.require(field, len(counts))
    for name, count in counts:
        require_text(field, name, limit=MOST_NAME)
        each.require(field, count)


def design_powers_of(by_name: Mapping[str, float]) -> DesignPowers:
    """Return the thermal design powers by name, W."""
    return tuple(sorted(by_name.items()))


def require_design_powers(field: str, tdp_w: DesignPowers, resources: Resources) -> None:
    """Raise RejectedError for powers that no accelerator has, or of what is not there."""
    known = {name for name, _ in resources}
    for name, watts in tdp_w:
        if name not in known:
            raise RejectedError(field, f"must be of the resources of the same nodes, got {name!r}")
        TDP_W.require(field, watts)

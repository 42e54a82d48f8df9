"""Clusters: nodes of one model under one resource manager."""

from dataclasses import dataclass

from shared.domain.checks import require_positive, require_text
from shared.domain.errors import RejectedError


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster as its operator declared it. Raises RejectedError on construction."""

    name: str
    site: str
    node_model: str
    nodes: int
    cores_per_node: int
    pstates_ghz: tuple[float, ...]
    idle_power_w: float
    peak_bandwidth_gbps: float

    def __post_init__(self) -> None:
        for field in ("name", "site", "node_model"):
            require_text(field, getattr(self, field))
        for field in ("nodes", "cores_per_node", "idle_power_w", "peak_bandwidth_gbps"):
            require_positive(field, getattr(self, field))
        if not self.pstates_ghz or any(f <= 0 for f in self.pstates_ghz):
            raise RejectedError("pstates_ghz", "must name at least one frequency above 0 GHz")
        if list(self.pstates_ghz) != sorted(set(self.pstates_ghz)):
            raise RejectedError("pstates_ghz", "must be ascending without repetition")

    @property
    def nominal_ghz(self) -> float:
        """The frequency that jobs run at when nobody chooses: the highest P-state."""
        return self.pstates_ghz[-1]

    def cores_for(self, *, shareable: bool) -> int:
        """Cores that a job uses on each of its nodes: half when it shares, else all."""
        return self.cores_per_node // 2 if shareable else self.cores_per_node

"""Why nothing starts on a cluster."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Closure:
    """A cluster is lost; or undeclared, by somebody; or its resource manager is silent."""

    since_s: float
    reason: str = ""
    undeclared_by: str = ""
    silent_manager: str = ""

    @property
    def is_lost(self) -> bool:
        """Return whether the cluster is out of reach, and still declared."""
        return not self.undeclared_by

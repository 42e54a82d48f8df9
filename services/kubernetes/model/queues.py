"""How many Jobs of a queue are where."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from services.kubernetes.model.records import API_VERSION, KubernetesRecord
from services.kubernetes.model.states import QueueState

KIND: Final = "JobQueue"
PLURAL: Final = "jobqueues"


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """The Jobs of a cluster; those that run are among those that were `admitted`."""

    waiting: int = 0
    admitted: int = 0
    running: int = 0
    refused: int = 0
    aside: int = 0

    @classmethod
    def of_states(cls, found: Iterable[tuple[QueueState, KubernetesRecord | None]]) -> Self:
        """Count Jobs by their states; those that have ended count nowhere."""
        counts = dict.fromkeys(QueueState, 0)
        running = 0
        for state, record in found:
            counts[state] += 1
            has_begun = record is not None and record.claim.has_begun
            running += state is QueueState.RUNS and has_begun
        return cls(
            waiting=counts[QueueState.WAITS],
            admitted=counts[QueueState.RUNS],
            running=running,
            refused=counts[QueueState.REFUSED],
            aside=counts[QueueState.ASIDE],
        )

    def to_status(self) -> Mapping[str, Any]:
        """Return the counts as the object of a queue has them."""
        return {
            "waiting": self.waiting,
            "admitted": self.admitted,
            "running": self.running,
            "refused": self.refused,
            "aside": self.aside,
        }


def queue_body(name: str, site: str, cluster: str) -> Mapping[str, Any]:
    """Return the object of a queue in a cluster."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name},
        "spec": {"site": site, "cluster": cluster},
    }

"""How many Jobs of a queue are where."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from services.kubernetes.model.jobs import JobUid
from services.kubernetes.model.records import API_VERSION
from services.kubernetes.model.states import QueueState
from services.kubernetes.model.tally import StateTally

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
    ended: int = 0

    def to_status(self) -> Mapping[str, Any]:
        """Return the counts as the object of a queue has them: of what has ended it has none."""
        return {
            "waiting": self.waiting,
            "admitted": self.admitted,
            "running": self.running,
            "refused": self.refused,
            "aside": self.aside,
        }

    def of(self, state: QueueState) -> int:
        """Return how many Jobs are in a state."""
        match state:
            case QueueState.WAITS:
                return self.waiting
            case QueueState.RUNS:
                return self.admitted
            case QueueState.REFUSED:
                return self.refused
            case QueueState.ASIDE:
                return self.aside
            case QueueState.ENDED:
                return self.ended


class CountedState(NamedTuple):
    """The state of a Job with Coplace, and whether its run has begun."""

    state: QueueState
    has_begun: bool = False


class QueueTally:
    """Counts Jobs of all clusters as they change."""

    def __init__(self) -> None:
        self._tally: StateTally[JobUid, tuple[str, CountedState]] = StateTally()

    def note(self, uid: JobUid, place: CountedState | None) -> None:
        """Note where a Job is now; None: nowhere."""
        self._tally.note(uid, (uid.cluster, place) if place is not None else None)

    def counts(self) -> Mapping[str, QueueCounts]:
        """Return how many Jobs are where, by their clusters."""
        found = self._tally.counts()
        return {cluster: _of(cluster, found) for cluster in {each for each, _ in found}}


def _of(cluster: str, counts: Mapping[tuple[str, CountedState], int]) -> QueueCounts:
    def count(state: QueueState, *, begun: bool) -> int:
        return counts.get((cluster, CountedState(state, begun)), 0)

    found = {
        state: sum(count(state, begun=begun) for begun in (False, True)) for state in QueueState
    }
    return QueueCounts(
        waiting=found[QueueState.WAITS],
        admitted=found[QueueState.RUNS],
        running=count(QueueState.RUNS, begun=True),
        refused=found[QueueState.REFUSED],
        aside=found[QueueState.ASIDE],
        ended=found[QueueState.ENDED],
    )


def queue_body(name: str, site: str, cluster: str) -> Mapping[str, Any]:
    """Return the object of a queue in a cluster."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name},
        "spec": {"site": site, "cluster": cluster},
    }

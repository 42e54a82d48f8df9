"""Resource managers that order their queues by fair share."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from lab.emulator import facts
from lab.emulator.running import RunningJob
from lab.workloads.request import JobRequest
from shared.catalogue.event import Publish
from shared.domain.cluster import Cluster

# Of a user without a node.
_MOST: Final = 1_000_000
_NO_NODES: Final[Mapping[str, int]] = Counter[str]()


class FairShare:
    """Gives jobs priorities by how many nodes their users have: the more, the lower. They are
    those of the last time at which the managers looked, so often; never where that is 0."""

    def __init__(self, clusters: Iterable[Cluster], every_us: int) -> None:
        self._clusters, self._every_us, self._next_us = list(clusters), every_us, 0
        self._nodes = _NO_NODES

    def priority(self, request: JobRequest) -> int:
        """Return the priority of a job that is submitted; 0 where managers give none."""
        return _MOST // (1 + self._nodes.get(request.user, 0)) if self._every_us else 0

    def reorder(
        self, queued: Mapping[str, JobRequest], running: Iterable[RunningJob], now_us: int
    ) -> Iterator[Publish]:
        """Yield the new priorities of what waits, where managers look again by now."""
        if not self._every_us or now_us < self._next_us:
            return
        self._next_us = now_us + self._every_us
        before = self._nodes
        nodes = Counter[str]()
        for run in running:
            nodes[run.request.user] += len(run.allocation.nodes)
        self._nodes = nodes
        for cluster in self._clusters:
            priorities = {
                job: self.priority(request)
                for job, request in queued.items()
                if request.reference_cluster == cluster.name
                and before.get(request.user, 0) != nodes[request.user]
            }
            yield from facts.reordered(cluster, priorities, now_us)

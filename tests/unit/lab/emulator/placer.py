"""A minimal placement for tests of the emulator: first come, first served, pairs where it can."""

from coplace.v1.jobs_pb2 import JobFinished, JobSubmitted
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided

from lab.emulator import driver
from lab.emulator.answers import Answers
from lab.emulator.emulator import Emulator, RoundOutput
from shared.domain.cluster import Cluster
from shared.streams.stages.stage import Round


class Placer:
    """Starts the queue's head whenever its reference cluster has room, at its nominal P-state."""

    def __init__(self, clusters: tuple[Cluster, ...]) -> None:
        self._clusters = {cluster.name: cluster for cluster in clusters}
        self._free = {cluster.name: set(range(cluster.nodes)) for cluster in clusters}
        self._queue: list[JobSubmitted] = []
        self._placed: dict[str, PlacementDecided] = {}
        self._paired: dict[str, str] = {}

    def decide(self, output: RoundOutput) -> list[PlacementDecided]:
        """What starts at the end of this round."""
        for published in output.events:
            self._fold(published.event.payload)
        decisions = []
        while self._queue and (decision := self._place(self._queue[0], output.round.number)):
            self._queue.pop(0)
            decisions.append(decision)
        return decisions

    def _fold(self, payload: object) -> None:
        if isinstance(payload, JobSubmitted):
            self._queue.append(payload)
        elif isinstance(payload, JobFinished):
            placed = self._placed.pop(payload.job_id)
            partner = self._paired.pop(payload.job_id, None)
            if partner in self._placed:
                del self._paired[partner]
            else:
                self._free[placed.cluster] |= set(placed.node_indices)

    def _place(self, job: JobSubmitted, number: int) -> PlacementDecided | None:
        partner = self._partner(job)
        cluster = self._clusters[partner.cluster if partner else job.reference_cluster]
        if partner:
            nodes = list(partner.node_indices)
        elif len(self._free[cluster.name]) >= job.nodes:
            nodes = sorted(self._free[cluster.name])[: job.nodes]
        else:
            return None
        self._free[cluster.name] -= set(nodes)
        decision = PlacementDecided(
            job_id=job.job_id,
            attempt=1,
            round=number,
            verdict=VERDICT_START,
            cluster=cluster.name,
            freq_ghz=cluster.nominal_ghz,
            node_indices=nodes,
            cores_per_node=cluster.cores_for(shareable=job.shareable),
            walltime_s=job.walltime_s,
            co_runner_job_id=partner.job_id if partner else "",
        )
        self._placed[job.job_id] = decision
        if partner:
            self._paired |= {job.job_id: partner.job_id, partner.job_id: job.job_id}
        return decision

    def _partner(self, job: JobSubmitted) -> PlacementDecided | None:
        fits = (
            placed
            for placed in self._placed.values()
            if job.shareable
            and placed.job_id not in self._paired
            and len(placed.node_indices) == job.nodes
            and placed.cores_per_node < self._clusters[placed.cluster].cores_per_node
        )
        return next(fits, None)


def play(
    emulator: Emulator, placer: Placer
) -> tuple[list[RoundOutput], list[list[PlacementDecided]]]:
    """Play to the end: what was said and what was decided, round by round."""
    outputs: list[RoundOutput] = []
    decisions: list[list[PlacementDecided]] = []

    def answers(_: Round) -> Answers:
        decisions.append(placer.decide(outputs[-1]))
        return Answers(decisions[-1])

    driver.play(emulator, outputs.append, answers)
    return outputs, decisions

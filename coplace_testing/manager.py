"""Resource managers that do what is decided."""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

from coplace.v1.jobs_pb2 import (
    JOB_OUTCOME_CANCELLED,
    JOB_OUTCOME_COMPLETED,
    JobFinished,
    JobOutcome,
    JobStarted,
    JobSubmitted,
)
from coplace.v1.placement_pb2 import (
    ACTION_KIND_END,
    VERDICT_ACTION,
    VERDICT_CANCELLED,
    VERDICT_START,
    VERDICT_WITHDRAWN,
    PlacementDecided,
)

from coplace_client.facts import action_refused
from coplace_client.millicores import beside_cores, millicores, whole_cores
from coplace_testing.region import Region
from shared.catalogue.payloads.domain_types import asked_resources

# As who it answers without an identity.
_SOURCE: Final = "manager"
# A job and the number of the start that it runs by.
_Grant = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Run:
    start: PlacementDecided
    started_at_us: int


class ObedientManager:
    """Plays the resource managers of all clusters of a region, at the end of each round.

    A job starts as soon as that is decided, and ends after `runtime_s`, which is told the start and
    asked once: by default after half of the walltime. What is asked of a job that runs is refused,
    but for its end. Runtimes know no physics: neither clocks nor neighbours change them.
    """

    def __init__(
        self,
        region: Region,
        runtime_s: Callable[[PlacementDecided], float] = lambda start: 0.5 * start.walltime_s,
        *,
        identity: str = "",
    ) -> None:
        self._region, self._runtime_s, self._identity = region, runtime_s, identity
        self._obeyed = self._heard = 0
        self._submitted: dict[str, JobSubmitted] = {}
        self._running: dict[_Grant, _Run] = {}
        self._ends: list[tuple[int, _Grant]] = []
        region.each_round(self.act)

    def act(self) -> None:
        """End what has run, then do what was decided since the last time."""
        while self._ends and self._ends[0][0] <= self._region.now_us:
            ended_at_us, grant = heappop(self._ends)
            if grant in self._running:
                self._finish(grant, JOB_OUTCOME_COMPLETED, ended_at_us)
        decisions = self._region.decisions()
        for decision in decisions[self._obeyed :]:
            self._obey(decision)
        self._obeyed = len(decisions)

    def _obey(self, decision: PlacementDecided) -> None:
        grant, now_us = (decision.job_id, decision.grant), self._region.now_us
        is_running, verdict = grant in self._running, decision.verdict
        if verdict == VERDICT_START:
            self._start(grant, decision)
        elif verdict == VERDICT_WITHDRAWN and is_running and decision.is_void:
            del self._running[grant]
        elif verdict == VERDICT_CANCELLED and is_running:
            self._finish(grant, JOB_OUTCOME_CANCELLED, now_us)
        elif verdict == VERDICT_ACTION and is_running:
            self._answer(grant, decision)

    def _start(self, grant: _Grant, decision: PlacementDecided) -> None:
        now_us, cluster = self._region.now_us, decision.cluster
        names = decision.node_names or [f"{cluster}-{i:04d}" for i in decision.node_indices]
        started = JobStarted(
            job_id=decision.job_id,
            attempt=decision.attempt,
            cluster=cluster,
            nodes=names,
            node_units=decision.node_units,
            freq_ghz=decision.freq_ghz,
            started_at_us=now_us,
            grant=decision.grant,
        )
        self._running[grant] = _Run(decision, now_us)
        heappush(self._ends, (now_us + round(self._runtime_s(decision) * 1e6), grant))
        self._region.send(started, identity=self._identity)

    def _finish(self, grant: _Grant, outcome: JobOutcome.ValueType, ended_at_us: int) -> None:
        run = self._running.pop(grant)
        start = run.start
        job = self._submission(start.array_job_id or start.job_id)
        units = start.node_units or [1] * len(start.node_indices)
        of_unit = millicores(start.cores_per_node, start.millicores_per_unit)
        held = sum(units) * of_unit
        finished = JobFinished(
            job_id=start.job_id,
            attempt=start.attempt,
            outcome=outcome,
            cluster=start.cluster,
            app_id=job.app_id,
            user=job.user,
            account=job.account,
            nodes=len(units),
            cores_per_node=whole_cores(max(units) * of_unit),
            cores=whole_cores(held),
            millicores=beside_cores(held),
            resources=asked_resources(job, sum(units)),
            freq_ghz=start.freq_ghz,
            submitted_at_us=job.submitted_at_us,
            started_at_us=run.started_at_us,
            ended_at_us=ended_at_us,
            grant=start.grant,
        )
        self._region.send(finished, identity=self._identity)

    def _answer(self, grant: _Grant, decision: PlacementDecided) -> None:
        """End a run where that is asked, and refuse all else."""
        now_us = self._region.now_us
        if decision.action.kind == ACTION_KIND_END:
            self._finish(grant, JOB_OUTCOME_CANCELLED, now_us)
        else:
            source = self._identity or _SOURCE
            refused = action_refused(source, decision, "it is not played", now_us)
            self._region.send(refused, identity=self._identity)

    def _submission(self, job_id: str) -> JobSubmitted:
        facts = self._region.messages("jobs.events")
        for fact in facts[self._heard :]:
            if isinstance(fact, JobSubmitted):
                self._submitted[fact.job_id] = fact
        self._heard = len(facts)
        return self._submitted[job_id]

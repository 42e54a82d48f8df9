"""Resource managers for tests: they keep journals, answer late, decline, and hold reports back."""

from dataclasses import dataclass, field

from coplace.v1.jobs_pb2 import (
    JOB_OUTCOME_CANCELLED,
    JOB_OUTCOME_COMPLETED,
    JOB_OUTCOME_FAILED,
    JobOutcome,
)
from coplace.v1.placement_pb2 import (
    VERDICT_ACTION,
    VERDICT_CANCELLED,
    VERDICT_START,
    VERDICT_WITHDRAWN,
    PlacementDecided,
)

from shared.catalogue.event import Event
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import CORES

Grant = tuple[str, int]


def grant_of(decided: PlacementDecided) -> Grant:
    return decided.job_id, decided.grant


@dataclass
class Managers:
    """Those of all clusters. `journal` says of each grant if it was claimed or declined: the first
    wins. What they were told waits in `inbox` until they act, what they say in `outbox` until
    it is delivered."""

    nodes: int
    inbox: list[PlacementDecided] = field(default_factory=list)
    outbox: list[Event] = field(default_factory=list)
    journal: dict[Grant, str] = field(default_factory=dict)
    runs: dict[Grant, PlacementDecided] = field(default_factory=dict)
    seized: set[str] = field(default_factory=set)
    taken: set[Grant] = field(default_factory=set)

    def act(self, decided: PlacementDecided, now_us: int, *, willing: bool) -> None:
        """Obey one of the decisions that wait, or decline the start."""
        self.inbox.remove(decided)
        if decided.verdict == VERDICT_START and willing:
            self.claim(decided, now_us)
        elif decided.verdict == VERDICT_CANCELLED and grant_of(decided) in self.runs:
            self.end(grant_of(decided), now_us, JOB_OUTCOME_CANCELLED)
        elif decided.verdict == VERDICT_WITHDRAWN and decided.is_void:
            self.runs.pop(grant_of(decided), None)
            self.decline(decided, now_us)
        elif decided.verdict == VERDICT_ACTION:
            if grant_of(decided) in self.runs:
                self.requeue(grant_of(decided), now_us)
        elif decided.cluster:
            self.decline(decided, now_us)

    def claim(self, decided: PlacementDecided, now_us: int) -> None:
        """Start a job, unless this was declined; no job may run twice, unless it was seized."""
        if self.journal.setdefault(grant_of(decided), "claimed") == "declined":
            return
        for run in self.runs.values():
            if run.job_id == decided.job_id:
                assert run.attempt != decided.attempt, f"{run.job_id} runs twice"
                assert run.job_id in self.seized, f"{run.job_id} runs in two attempts"
        self.runs[grant_of(decided)] = decided
        self.outbox.append(region.started(decided, started_at_us=now_us))

    def decline(self, decided: PlacementDecided, now_us: int) -> None:
        """Give a start back, unless it took place."""
        if self.journal.setdefault(grant_of(decided), "declined") == "declined":
            self.outbox.append(region.declined(decided, now_us))

    def end(self, grant: Grant, now_us: int, outcome: JobOutcome.ValueType) -> None:
        """A run ends."""
        run = self.runs.pop(grant)
        self.outbox.append(region.finished(run.job_id, now_us, run.attempt, outcome, grant[1]))

    def requeue(self, grant: Grant, now_us: int) -> None:
        """A run is put back."""
        run = self.runs.pop(grant)
        self.outbox.append(region.requeued(run.job_id, now_us, run.attempt + 1))

    def seize(self, job_id: str) -> None:
        """An operator says that nothing of a job runs, truly or not."""
        self.seized.add(job_id)
        self.taken |= {grant for grant in self.runs if grant[0] == job_id}
        self.taken |= {grant_of(one) for one in self.inbox if one.job_id == job_id}

    def open_starts(self) -> list[PlacementDecided]:
        """What runs or may start, less what was seized."""
        waiting = (one for one in self.inbox if one.verdict == VERDICT_START)
        may_start = [one for one in waiting if grant_of(one) not in self.journal]
        both = (*self.runs.values(), *may_start)
        return [one for one in both if grant_of(one) not in self.taken]

    def check(self) -> None:
        """No core is given twice, and only jobs that share all their nodes share one."""
        used: dict[tuple[str, int], list[PlacementDecided]] = {}
        for start in self.open_starts():
            for index in start.node_indices:
                used.setdefault((start.cluster, index), []).append(start)
        for (cluster, index), starts in used.items():
            assert index < self.nodes
            assert sum(start.cores_per_node for start in starts) <= CORES[cluster]


OUTCOMES = (JOB_OUTCOME_COMPLETED, JOB_OUTCOME_FAILED)

"""What the outside world knows to be true: what ingest acknowledged, and what resource managers
did. The auditor compares topics with it."""

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction

from coplace.v1.jobs_pb2 import JobFinished, JobSubmitted

from shared.catalogue.event import Event


class End(Enum):
    """Why a run is over: it finished, went back into the queue, was void as placement said, or its
    nodes lost their power."""

    FINISHED = "finished"
    REQUEUED = "requeued"
    VOID = "void"
    POWER = "power"


@dataclass(slots=True)
class Run:
    """One real execution of an attempt, as its resource manager saw it; times in us. `units` are
    those on each of the nodes, each of so many cores; `grant` is 0 where nobody granted it, and
    `failed` are those of its nodes that failed."""

    job_id: str
    attempt: int
    cluster: str
    nodes: tuple[str, ...]
    units: tuple[int, ...]
    cores_per_unit: int
    began_us: int
    ended_us: int | None = None
    grant: int = 0
    end: End | None = None
    failed: tuple[str, ...] = ()
    millicores_per_unit: int = 0

    @property
    def of_a_unit(self) -> Fraction:
        """The cores of each unit, exactly."""
        return Fraction(self.millicores_per_unit, 1000) or Fraction(self.cores_per_unit)

    @property
    def key(self) -> tuple[str, int]:
        """The attempt."""
        return self.job_id, self.attempt

    def is_alive_at(self, time_us: int) -> bool:
        """Whether it had begun and not ended."""
        return self.began_us <= time_us and (self.ended_us is None or time_us < self.ended_us)

    def was_beside(self, other: "Run", began_us: int, ended_us: int) -> bool:
        """Whether both were on a node all that time."""
        is_on_node = self.cluster == other.cluster and not set(self.nodes).isdisjoint(other.nodes)
        return is_on_node and all(
            run.began_us <= began_us and (run.ended_us is None or ended_us <= run.ended_us)
            for run in (self, other)
        )

    def overlaps(self, other: "Run") -> bool:
        """Whether both were alive at once."""
        mine = float("inf") if self.ended_us is None else self.ended_us
        others = float("inf") if other.ended_us is None else other.ended_us
        return self.began_us < others and other.began_us < mine


@dataclass(slots=True)
class Death:
    """A process that ended by an error of its own, with the last line of its trace."""

    service: str
    error: str
    trace: str
    at_us: int


@dataclass(slots=True)
class Journal:
    """Facts in the order in which they happened. `acknowledged` counts how often ingest took an id;
    `cores` is what each node of a cluster has; `own` are the jobs that resource managers started
    by themselves; `lost_charges` (job, attempt, revision) were published until an operator restored
    an older one, `pricing_forgot` whether its changelog was replaced too; `mended` counts how
    often an operator repaired a stage; `taken_before` is what placement took in before older inputs
    were restored, which end at `inputs_end`, when `letters_before` were in their dead-letter queue;
    `refusals` are what stages said that refused to work."""

    acknowledged: Counter[str] = field(default_factory=Counter)
    events: dict[str, Event] = field(default_factory=dict)
    submissions: dict[str, JobSubmitted] = field(default_factory=dict)
    own: dict[str, JobSubmitted] = field(default_factory=dict)
    finishes: dict[tuple[str, int], JobFinished] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    deaths: list[Death] = field(default_factory=list)
    cores: dict[str, int] = field(default_factory=dict)
    lost_charges: set[tuple[str, int, int]] = field(default_factory=set)
    pricing_forgot: bool = False
    mended: Counter[str] = field(default_factory=Counter)
    taken_before: list[Event] = field(default_factory=list)
    inputs_end: int = 0
    letters_before: int = 0
    refusals: list[str] = field(default_factory=list)
    refused: int = 0
    violations: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)

    def submission(self, job_id: str) -> JobSubmitted | None:
        """What was submitted as a job; of a task that is its array."""
        array_id, _, index = job_id.rpartition("_")
        array = self.submissions.get(array_id)
        is_task = array is not None and array.array and index.isdecimal()
        return self.submissions.get(job_id) or (array if is_task else None)

    def acknowledge(self, event: Event) -> None:
        """Ingest answered that it has this."""
        self.acknowledged[event.id] += 1
        self.events.setdefault(event.id, event)
        match event.payload:
            case JobSubmitted() as submitted:
                self.submissions.setdefault(submitted.job_id, submitted)
            case JobFinished() as finished:
                self.finishes.setdefault((finished.job_id, finished.attempt), finished)

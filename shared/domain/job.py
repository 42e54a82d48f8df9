"""Jobs: what a user asked for, and the life that their events describe."""

from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from math import ceil, inf
from typing import Final

from coplace_client.bounds import (
    DELAY_S,
    JOB_MEMORY_GIB,
    LENGTHS,
    MOST_NODES,
    PRIORITY,
    QUANTITIES,
)
from coplace_client.checks import require_not_negative, require_text
from coplace_client.errors import RejectedError
from coplace_client.millicores import millicores
from shared.domain.array_tasks import TaskIndices, parse_tasks, task_id
from shared.domain.cluster import Cluster
from shared.domain.features import parse_features
from shared.domain.hostlist import count_names, expand
from shared.domain.parts import JobPart, asked_in_all, require_millicores, require_parts
from shared.domain.resources import Resources, require_licences, require_resources

MOST_PRIORITY: Final = round(PRIORITY.most)
# What a gang says of each of its parts, and not of the whole.
_OF_PARTS: Final = (
    *("cores_per_unit", "units_per_node", "memory_gib_per_unit", "resources_per_unit"),
    *("memory_gib", "nodes_wanted", "millicores_per_unit"),
)
# Choices of partitions that a pass tries for a gang.
_MOST_CHOICES: Final = 64
# Characters of the host lists that one job names: each job that waits keeps them.
_MOST_NAMED_TEXT: Final = 4096
# Names of nodes that are kept, some 10 MiB; the text of a list counts as so many.
_MOST_KEPT_NAMES: Final = 100_000
_NAMES_OF_A_LIST: Final = 100
# Its id and the number of the attempt.
JobAttempt = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Job:
    """One attempt of a job as it was submitted. Raises RejectedError on construction.

    It consists of `nodes` equal units: whole nodes, half of each where it is shareable, or
    `cores_per_unit` cores, of which `units_per_node` at most (0: any number) go onto one node.
    Cores that are no whole ones are rounded up, and are exactly `millicores_per_unit` thousandths.
    `walltime_s` relates to `reference_cluster` at its nominal P-state. `memory_gib` is that of the
    whole job, 0 where any nodes will do; `architectures` are empty where it runs everywhere. It
    starts not before `begin_s` and ends by `deadline_s`, 0 without, when one of its dependencies is
    met where it `depends_on_any`, else all. `sequence` is its place at its resource manager,
    `home_cluster` that of a manager that queues it itself, empty where none does. `qos` is its
    quality of service.

    Where it may run is said by `partitions` and `clusters`, any of which will do, `features`, an
    expression, and host lists: all `nodes_wanted` are among its nodes, none of `nodes_excluded`.

    An `array` has tasks of these indices, each of which is as the array says, and `array_at_most`
    of them have nodes at once (0: any number). A task has the `array_id`, its `array_index`, and
    its `array_ordinal` among the tasks.

    A gang consists of `parts`, and of `nodes` whole nodes in all. What a part does not say of where
    it may be, `partitions`, `features` and `nodes_excluded` say.

    It holds `licences` while it runs: of the cluster, the site or the region where it does.

    `manager_priority` is by what its resource manager orders its queue, 0 where it gives none.
    Somebody waits for the start of one that `is_interactive`; where it does not start within
    `starts_within_s` (0: it waits) it is rejected. What it asks for was changed at `changed_at_us`
    the last time, 0 where it never was.
    """

    job_id: str
    attempt: int
    app_id: str
    user: str
    account: str
    nodes: int
    walltime_s: float
    reference_cluster: str
    shareable: bool
    submit_s: float
    priority: int = 0
    memory_gib: float = 0.0
    architectures: tuple[str, ...] = ()
    cores_per_unit: int = 0
    memory_gib_per_unit: float = 0.0
    resources_per_unit: Resources = ()
    units_per_node: int = 0
    begin_s: float = 0.0
    deadline_s: float = 0.0
    depends_on_any: bool = False
    job_name: str = ""
    sequence: str = ""
    partitions: tuple[str, ...] = ()
    features: str = ""
    nodes_wanted: tuple[str, ...] = ()
    nodes_excluded: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    home_cluster: str = ""
    qos: str = ""
    reservation: str = ""
    array: str = ""
    array_at_most: int = 0
    array_id: str = ""
    array_index: int = 0
    array_ordinal: int = 0
    parts: tuple[JobPart, ...] = ()
    licences: Resources = ()
    manager_priority: int = 0
    is_interactive: bool = False
    starts_within_s: float = 0.0
    millicores_per_unit: int = 0
    changed_at_us: int = 0

    def __post_init__(self) -> None:
        for field in ("job_id", "user", "account", "reference_cluster"):
            require_text(field, getattr(self, field))
        for field in ("app_id", "job_name", "sequence", "home_cluster", "qos", "reservation"):
            if getattr(self, field):
                require_text(field, getattr(self, field))
        for field in ("attempt", "nodes", "walltime_s", "priority"):
            QUANTITIES[field].require(field, getattr(self, field))
        for field in ("submit_s", "begin_s", "deadline_s"):
            require_not_negative(field, getattr(self, field))
        QUANTITIES["manager_priority"].require_if_known("manager_priority", self.manager_priority)
        JOB_MEMORY_GIB.require_if_known("memory_gib", self.memory_gib)
        LENGTHS["architectures"].require("architectures", len(self.architectures))
        for architecture in self.architectures:
            require_text("architectures", architecture)
        self._check_unit()
        if self.has_wishes or self.clusters:
            self._check_where()
        self._check_array()
        self._check_parts()
        self._check_interactive()

    def _check_parts(self) -> None:
        if not self.parts:
            return
        require_parts(self.parts, self.nodes)
        if self.shareable:
            raise RejectedError("shareable", "must not be set: nodes of a gang have no other jobs")
        for field in _OF_PARTS:
            if getattr(self, field):
                raise RejectedError(field, "must not be set beside parts: say it of each part")
        self._check_named_by_parts()
        choices, wanted = 1, Counter[str]()
        for job in jobs_of_parts(self):
            choices *= max(1, len(job.partitions))
            wanted.update(named_nodes(job.nodes_wanted))
        if choices > _MOST_CHOICES:
            problem = f"allow {choices} choices of partitions together, at most {_MOST_CHOICES}"
            raise RejectedError("parts", problem)
        twice = next((name for name, count in wanted.items() if count > 1), None)
        if twice is not None:
            raise RejectedError("parts", f"want node {twice[:80]!r} twice: it can be of one part")

    def _check_named_by_parts(self) -> None:
        """Refuse what names more nodes than one job may, before any name is made."""
        for field in ("nodes_wanted", "nodes_excluded"):
            lists = [getattr(part, field) for part in self.parts]
            if sum(len(each) for of_part in lists for each in of_part) > _MOST_NAMED_TEXT:
                problem = f"must be at most {_MOST_NAMED_TEXT} characters in all parts together"
                raise RejectedError(field, f"{problem}: name fewer nodes, or use ranges")
            counts = [_names_in(field, of_part) for of_part in lists]
            if sum(counts) > MOST_NODES:
                problem = f"must name at most {MOST_NODES} nodes in all parts together"
                raise RejectedError(field, f"{problem}, got {sum(counts)}: name fewer")
            if field == "nodes_excluded":
                continue
            for number, (part, count) in enumerate(zip(self.parts, counts, strict=True)):
                if count > part.nodes:
                    problem = f"of part {number} must be at most {part.nodes} as its nodes"
                    raise RejectedError(field, f"{problem}, got {count}: name fewer, each once")

    def _check_interactive(self) -> None:
        QUANTITIES["starts_within_s"].require_if_known("starts_within_s", self.starts_within_s)
        if self.starts_within_s and not self.is_interactive:
            raise RejectedError("starts_within_s", "is of interactive jobs: set is_interactive")
        if self.is_interactive and self.array:
            raise RejectedError("is_interactive", "must not be set of an array")

    def _check_array(self) -> None:
        if not (self.array or self.array_at_most):
            return
        QUANTITIES["array_at_most"].require_if_known("array_at_most", self.array_at_most)
        if self.array_id:
            return
        last = parse_tasks(self.array).ranges[-1][-1]
        require_text("job_id", task_id(self.job_id, last))
        if self.attempt != 1:
            raise RejectedError("attempt", "must be 1 of an array: its tasks have attempts")

    def _check_where(self) -> None:
        for field in ("partitions", "clusters"):
            names = getattr(self, field)
            LENGTHS[field].require(field, len(names))
            for name in names:
                require_text(field, name)
        if self.features:
            parse_features(self.features)
        for field in ("nodes_wanted", "nodes_excluded"):
            lists = getattr(self, field)
            LENGTHS["nodes_named"].require(field, len(lists))
            if sum(map(len, lists)) > _MOST_NAMED_TEXT:
                raise RejectedError(field, f"must be at most {_MOST_NAMED_TEXT} characters")
            if lists:
                count_names(",".join(lists))
        if (wanted := len(named_nodes(self.nodes_wanted))) > self.nodes:
            problem = f"must be at most {self.nodes} as the units, got {wanted}"
            raise RejectedError("nodes_wanted", problem)

    def _check_unit(self) -> None:
        for field in ("cores_per_unit", "memory_gib_per_unit", "units_per_node"):
            QUANTITIES[field].require_if_known(field, getattr(self, field))
        if self.millicores_per_unit:
            require_millicores(self.cores_per_unit, self.millicores_per_unit)
        require_resources("resources_per_unit", self.resources_per_unit)
        if self.licences:
            require_licences("licences", self.licences)
        if self.memory_gib and self.memory_gib_per_unit:
            raise RejectedError("memory_gib_per_unit", "must not be set beside memory_gib")
        if self.units_per_node and not self.cores_per_unit:
            raise RejectedError(
                "units_per_node", "needs cores_per_unit: whole nodes are one a node"
            )

    def nodes_on(self, cluster: Cluster) -> int:
        """Return the units that the job gets there: as many as it asked for, or as hold its memory
        where those do not (D'Amico and Corbalan 2021, section 3.4)."""
        if self.cores_per_unit or not self.memory_gib:
            return self.nodes
        memory_gib = cluster.memory_gib_for(shareable=self.shareable)
        return max(self.nodes, ceil(self.memory_gib / memory_gib)) if memory_gib else self.nodes

    def has_unknown_memory_on(self, cluster: Cluster) -> bool:
        """Return whether it says what memory it needs, and the cluster not what its nodes have."""
        needs_memory = self.memory_gib or self.memory_gib_per_unit
        return bool(needs_memory) and not all(each.memory_gib for each in cluster.node_classes)

    @property
    def unit_millicores(self) -> int:
        """Return the thousandths of a core of each unit; 0 where it asks for no cores."""
        return millicores(self.cores_per_unit, self.millicores_per_unit)

    @property
    def is_of_nodes(self) -> bool:
        """Return whether it takes whole nodes of any kind, without a neighbour."""
        has_more = self.cores_per_unit or self.memory_gib_per_unit or self.resources_per_unit
        return not (has_more or self.shareable)

    def resources(self, units: int) -> Resources:
        """Return what so many units ask for beside cores and memory: of a gang all its parts."""
        return asked_in_all(self.parts, self.resources_per_unit, units)

    @property
    def tasks(self) -> TaskIndices | None:
        """Return the indices of its tasks; None of a job that is no array."""
        return parse_tasks(self.array) if self.array else None

    def task(self, ordinal: int) -> "Job":
        """Return the job that the task of this ordinal is."""
        index = parse_tasks(self.array).index(ordinal)
        return replace(
            self,
            job_id=task_id(self.job_id, index),
            array="",
            array_id=self.job_id,
            array_index=index,
            array_ordinal=ordinal,
        )

    @property
    def starts_by_s(self) -> float:
        """Return by when it starts, or is rejected; infinite where it waits."""
        return self.submit_s + self.starts_within_s if self.starts_within_s else inf

    @property
    def has_wishes(self) -> bool:
        """Return whether not all nodes of a cluster are the same to it."""
        if self.partitions or self.features or self.nodes_wanted or self.nodes_excluded:
            return True
        return bool(self.parts) and any(part.has_wishes for part in self.parts)

    def runs_on(self, cluster: Cluster) -> bool:
        """Return whether it has a binary for the cluster."""
        return not self.architectures or cluster.architecture in self.architectures

    def time_left_s(self, now_s: float) -> float:
        """Return how long it may run from now on; infinite without a deadline."""
        return self.deadline_s - now_s if self.deadline_s else inf


@lru_cache(maxsize=1024)
def jobs_of_parts(job: Job) -> tuple[Job, ...]:
    """Return each part of a gang as a job of so many units, one a node; of another job itself.
    Raises RejectedError.

    Cores are left out: a unit is a whole node, whatever it needs of it.
    """
    if not job.parts:
        return (job,)
    return tuple(
        replace(
            job,
            parts=(),
            nodes=part.nodes,
            memory_gib_per_unit=part.memory_gib_per_node,
            resources_per_unit=part.resources_per_node,
            partitions=part.partitions or job.partitions,
            features=part.features or job.features,
            nodes_wanted=part.nodes_wanted,
            nodes_excluded=part.nodes_excluded or job.nodes_excluded,
        )
        for part in job.parts
    )


def _names_in(field: str, host_lists: tuple[str, ...]) -> int:
    """Return how many names the host lists of a field have, without making them."""
    if not host_lists:
        return 0
    try:
        return count_names(",".join(host_lists))
    except RejectedError as wrong:
        raise RejectedError(field, wrong.problem) from wrong


class _NamedNodes:
    """The nodes that host lists name, kept for so many names and lists: a short list can name a
    hundred thousand."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._kept = 0

    def of(self, host_lists: tuple[str, ...]) -> tuple[str, ...]:
        """Return the nodes, each once. Raises RejectedError."""
        found = self._known.get(host_lists)
        if found is None:
            found = tuple(dict.fromkeys(expand(",".join(host_lists))))
            size = len(found) + _NAMES_OF_A_LIST
            if self._kept + size > _MOST_KEPT_NAMES:
                self._known.clear()
                self._kept = 0
            self._known[host_lists] = found
            self._kept += size
        return found


_NAMED = _NamedNodes()


def named_nodes(host_lists: tuple[str, ...]) -> tuple[str, ...]:
    """Return the nodes that host lists name, each once. Raises RejectedError."""
    return _NAMED.of(host_lists) if host_lists else ()


class Condition(StrEnum):
    """What a dependency waits for."""

    AFTER_OK = "after_ok"
    AFTER_ANY = "after_any"
    AFTER = "after"
    AFTER_NOT_OK = "after_not_ok"
    SINGLETON = "singleton"
    AFTER_CORR = "after_corr"


@dataclass(frozen=True, slots=True)
class Dependency:
    """What must happen to the job `job_id` first, `delay_s` before; a singleton names no job.

    Once it happened the delay ends at `due_s`. Raises RejectedError on construction.
    """

    job_id: str
    condition: Condition
    delay_s: float = 0.0
    due_s: float | None = None

    def __post_init__(self) -> None:
        DELAY_S.require_if_known("delay_s", self.delay_s)
        if not self.is_singleton:
            require_text("depends_on", self.job_id)
        elif self.job_id or self.delay_s:
            raise RejectedError("depends_on", "of a singleton names no job, and has no delay")
        if self.is_of_tasks and self.delay_s:
            raise RejectedError("depends_on", "of tasks on tasks has no delay")

    @property
    def is_of_tasks(self) -> bool:
        """Return whether each task of an array waits for the task of the same index."""
        return self.condition is Condition.AFTER_CORR

    @property
    def is_singleton(self) -> bool:
        """Return whether it waits for all jobs of the same user and name."""
        return self.condition is Condition.SINGLETON


def job_id(site: str, cluster: str, local_id: str, submit_s: float) -> str:
    """Return the natural key of a job; it holds the time since resource managers use local ids
    again."""
    return f"{site}/{cluster}/{local_id}/{round(submit_s)}"


class JobState(StrEnum):
    """The state of one attempt of a job. What is GRANTED may start at any moment, or has started
    and was not reported yet. An array is SPLIT while no task is left in it, and some have not
    ended."""

    UNKNOWN = "unknown"
    SUBMITTED = "submitted"
    GRANTED = "granted"
    RUNNING = "running"
    FINISHED = "finished"
    CANCELLED = "cancelled"
    REJECTED = "rejected"
    SPLIT = "split"


class JobFact(StrEnum):
    """What a resource manager says happened to an attempt; GRANTED and REJECTED are what
    placement decided, CANCELLED what somebody asked. SPLIT is that the last task of an array became
    a job of its own, or began anew."""

    SUBMITTED = "submitted"
    GRANTED = "granted"
    DECLINED = "declined"
    STARTED = "started"
    FINISHED = "finished"
    CANCELLED = "cancelled"
    REJECTED = "rejected"
    SPLIT = "split"


# What each fact makes of each state. A pair that is missing changes nothing: it is a copy, or a
# fact that arrived after a later one (a start after its finish). A finish carries all that a price
# needs, so it is accepted from every state but its own. Nothing happens to what was not submitted:
# such a fact came early. Who cancels asks: it ends what waits, but a resource manager that started
# it anyway is right, and so it is of what was rejected. What is granted ends by the word of the
# resource manager alone, so that a cancellation waits for it. A requeue or a seizure begins another
# attempt.
TRANSITIONS: Final[dict[tuple[JobState, JobFact], JobState]] = {
    (JobState.UNKNOWN, JobFact.SUBMITTED): JobState.SUBMITTED,
    (JobState.SUBMITTED, JobFact.GRANTED): JobState.GRANTED,
    (JobState.SUBMITTED, JobFact.STARTED): JobState.RUNNING,
    (JobState.SUBMITTED, JobFact.FINISHED): JobState.FINISHED,
    (JobState.SUBMITTED, JobFact.CANCELLED): JobState.CANCELLED,
    (JobState.SUBMITTED, JobFact.REJECTED): JobState.REJECTED,
    (JobState.GRANTED, JobFact.DECLINED): JobState.SUBMITTED,
    (JobState.GRANTED, JobFact.STARTED): JobState.RUNNING,
    (JobState.GRANTED, JobFact.FINISHED): JobState.FINISHED,
    (JobState.RUNNING, JobFact.FINISHED): JobState.FINISHED,
    (JobState.CANCELLED, JobFact.STARTED): JobState.RUNNING,
    (JobState.CANCELLED, JobFact.FINISHED): JobState.FINISHED,
    (JobState.REJECTED, JobFact.STARTED): JobState.RUNNING,
    (JobState.REJECTED, JobFact.FINISHED): JobState.FINISHED,
    (JobState.REJECTED, JobFact.CANCELLED): JobState.CANCELLED,
    (JobState.SUBMITTED, JobFact.SPLIT): JobState.SPLIT,
    (JobState.FINISHED, JobFact.SPLIT): JobState.SPLIT,
    (JobState.CANCELLED, JobFact.SPLIT): JobState.SPLIT,
    (JobState.REJECTED, JobFact.SPLIT): JobState.SPLIT,
    (JobState.SPLIT, JobFact.FINISHED): JobState.FINISHED,
    (JobState.SPLIT, JobFact.CANCELLED): JobState.CANCELLED,
}


def next_state(state: JobState, fact: JobFact) -> JobState:
    """Return the state after `fact`; the same state when the fact is a copy or comes late."""
    return TRANSITIONS.get((state, fact), state)

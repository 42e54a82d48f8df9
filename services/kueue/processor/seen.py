"""What was seen of a Workload, and what holds for all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from services.kueue.model.facts import KueueTerms, submission_of
from services.kueue.model.records import WorkloadRecord
from shared.kubernetes.explained_wait import ExplainedWait
from shared.kubernetes.pods import RunPod
from shared.kueue.workloads import CheckNames, KueueWorkload

SECOND_US: Final = 1_000_000


class Surroundings(NamedTuple):
    """What is around a Workload: the checks of its API server and of that where its copy is, the
    labels of the nodes of its cluster and of each flavor there, and the nodes that the cluster
    declared, by name, with the label by which pods ask for each. `cluster` is where it runs,
    or would if it stayed."""

    checks: CheckNames = CheckNames()
    copy_checks: CheckNames = CheckNames()
    selector: Mapping[str, str] = {}
    flavors: Mapping[str, Mapping[str, str]] = {}
    hostnames: Mapping[str, str] = {}
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class SeenWorkload:
    """A Workload, its copy on the cluster where it was granted, and the pods of its newest grant.
    `asked_us` is since when it was seen to wait for Coplace, `over_us` since when it was seen not
    to run any more; 0: not. `is_known` says that this process has submitted it, and `explained` is
    set where that was asked for."""

    workload: KueueWorkload
    copy: KueueWorkload | None = None
    pods: Sequence[RunPod] = ()
    around: Surroundings = field(default_factory=Surroundings)
    asked_us: int = 0
    over_us: int = 0
    is_known: bool = False
    explained: ExplainedWait | None = None

    def pods_of(self, record: WorkloadRecord) -> int:
        """Return how many pods a run of it has at a time: of a Workload that was deleted before it
        was seen, as many as were submitted."""
        return self.workload.pods or record.submitted.nodes


@dataclass(frozen=True, slots=True)
class WaitLimit:
    """For how long a Workload may keep its quota while it waits for a start, us."""

    waits_us: int = 5 * SECOND_US


@dataclass(frozen=True, slots=True)
class Moment:
    """What holds for all Workloads now."""

    terms: KueueTerms
    now_us: int
    patience: WaitLimit = field(default_factory=WaitLimit)


def overdue(seen: SeenWorkload, moment: Moment) -> bool:
    """Return whether a Workload has kept its quota for as long as it may without a start."""
    return 0 < seen.asked_us <= moment.now_us - moment.patience.waits_us


def new_record(seen: SeenWorkload, moment: Moment) -> WorkloadRecord:
    """Return the record of a Workload that has none. Raises RejectedError for one that Coplace
    cannot take."""
    clusters = list(seen.around.checks.clusters_of(seen.workload))
    return WorkloadRecord(submission_of(seen.workload, clusters, moment.terms))

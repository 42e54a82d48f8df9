"""What is to be done about a Workload, in order; each may be done again."""

from collections.abc import Sequence
from dataclasses import dataclass

from services.kueue.model.records import WorkloadRecord
from shared.kubernetes.effects import LookAgain, PublishFact
from shared.kueue.answers import Body
from shared.kueue.workloads import CheckState, KueueWorkload


@dataclass(frozen=True, slots=True)
class KeepRecord:
    """Keep what is known of a Workload, where its record is as it was read."""

    workload: KueueWorkload
    record: WorkloadRecord
    words: str

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True)
class DropRecord:
    """Forget a Workload that is over: its end was published."""

    workload: KueueWorkload
    record: WorkloadRecord
    words: str

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True)
class AnswerCheck:
    """Answer the checks of a Workload, where that is as it was seen."""

    workload: KueueWorkload
    names: Sequence[str]
    state: CheckState
    message: str
    updates: Sequence[Body] = ()
    requeue_s: int | None = None

    def __str__(self) -> str:
        return f"answered {self.state}: {self.message}"


@dataclass(frozen=True, slots=True)
class Nominate:
    """Have MultiKueue send a Workload to one of these clusters, where that is as it was seen."""

    workload: KueueWorkload
    clusters: Sequence[str]

    def __str__(self) -> str:
        return f"nominated {', '.join(self.clusters) or 'no cluster'}"


@dataclass(frozen=True, slots=True)
class NoteRecalled:
    """Note on a Workload that a grant is recalled, where that is as it was seen."""

    workload: KueueWorkload
    grant: int

    def __str__(self) -> str:
        return f"recalled grant {self.grant}"


@dataclass(frozen=True, slots=True)
class Deactivate:
    """Have Kueue end a Workload, where that is as it was seen, and admit it no more."""

    workload: KueueWorkload

    def __str__(self) -> str:
        return "deactivated"


@dataclass(frozen=True, slots=True)
class NotifyOwner:
    """An event of Kubernetes about a Workload; it is lost where the API server does not take it."""

    workload: KueueWorkload
    reason: str
    message: str
    is_warning: bool = False

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}"


WriteEffect = KeepRecord | DropRecord | AnswerCheck | Nominate | NoteRecalled | Deactivate
"""It changes a Workload, or the record of one."""
WorkloadEffect = PublishFact | WriteEffect | NotifyOwner | LookAgain

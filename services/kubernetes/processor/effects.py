"""What is to be done about a Job, in order; each may be done again."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from services.kubernetes.model.bodies import Body
from services.kubernetes.model.jobs import JobKey, JobUid, KubernetesJob
from services.kubernetes.model.records import KubernetesRecord
from shared.kubernetes.effects import LookAgain, PublishFact
from shared.kueue.workloads import KueueWorkload


@dataclass(frozen=True, slots=True)
class CreateRecord:
    """Begin to keep what becomes of a Job."""

    id: JobUid
    body: Body

    def __str__(self) -> str:
        return "recorded"


@dataclass(frozen=True, slots=True)
class PatchRecord:
    """Change a record as it was seen."""

    record: KubernetesRecord
    body: Body
    words: str

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True)
class DeleteRecord:
    """Delete the record of a Job that is not there any more, and whose end was published."""

    record: KubernetesRecord

    def __str__(self) -> str:
        return "deleted the record"


@dataclass(frozen=True, slots=True)
class PatchJob:
    """Change a Job as it was seen, where its record is still as it was seen too. `informs` are
    annotations for its user: where the API server takes no more of them, it is changed without.
    Where it will never take the rest, `otherwise` says what to do, with the reason."""

    job: KubernetesJob
    body: Body
    words: str
    record: KubernetesRecord | None = None
    informs: Mapping[str, str | None] = field(default_factory=dict)
    otherwise: "Otherwise | None" = None

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True)
class RefuseJob:
    """Report to a Job's user why Coplace does not take it."""

    job: KubernetesJob
    why: str

    def __str__(self) -> str:
        return f"not understood: {self.why}"


@dataclass(frozen=True, slots=True)
class CreateCopy:
    """Have a Job run in another cluster. One of its name that is there is the one."""

    key: JobKey
    body: Body
    record: KubernetesRecord
    otherwise: "Otherwise"

    def __str__(self) -> str:
        return f"started on {self.key.cluster}"


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete a copy with its pods."""

    job: KubernetesJob

    def __str__(self) -> str:
        return "deleted the copy"


@dataclass(frozen=True, slots=True)
class NotifyUser:
    """An event of Kubernetes about a Job; it is lost where the API server does not take it."""

    job: KubernetesJob
    reason: str
    message: str
    is_warning: bool = False

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}"


@dataclass(frozen=True, slots=True)
class PatchStatus:
    """Change the status of a Job, as it was seen."""

    job: KubernetesJob
    body: Body

    def __str__(self) -> str:
        return "changed its status"


@dataclass(frozen=True, slots=True)
class AdmitCopy:
    """Have Kueue let a copy run, where its Workload is as it was seen."""

    workload: KueueWorkload
    message: str

    def __str__(self) -> str:
        return f"admitted by Kueue: {self.message}"


@dataclass(frozen=True, slots=True)
class EvictCopy:
    """Have Kueue end a copy, where its Workload is as it was seen, and let it run no more."""

    workload: KueueWorkload

    def __str__(self) -> str:
        return "taken out of Kueue"


JobEffect = (
    PublishFact
    | CreateRecord
    | PatchRecord
    | DeleteRecord
    | PatchJob
    | RefuseJob
    | CreateCopy
    | DeleteJob
    | NotifyUser
    | LookAgain
    | PatchStatus
    | AdmitCopy
    | EvictCopy
)
Otherwise = Callable[[str], Sequence[JobEffect]]

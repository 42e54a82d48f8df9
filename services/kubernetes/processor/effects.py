"""What is to be done about a Job, in order; each may be done again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from coplace.v1.ingest_service_pb2 import Envelope

from services.kubernetes.model.bodies import Body
from services.kubernetes.model.jobs import JobKey, KubernetesJob


@dataclass(frozen=True, slots=True)
class PublishFact:
    """Hand a fact to ingest. What follows waits until it is acknowledged."""

    event: Envelope

    def __str__(self) -> str:
        return f"published {self.event.WhichOneof('payload')}"


@dataclass(frozen=True, slots=True)
class PatchJob:
    """Change a Job as it was seen. Where the API server will never take it, `otherwise` says what
    to do, with the reason."""

    job: KubernetesJob
    body: Body
    words: str
    otherwise: "Otherwise | None" = None

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True)
class CreateCopy:
    """Have a Job run in another cluster. One of its name that is there is the one."""

    key: JobKey
    body: Body
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


JobEffect = PublishFact | PatchJob | CreateCopy | DeleteJob | NotifyUser
Otherwise = Callable[[str], Sequence[JobEffect]]

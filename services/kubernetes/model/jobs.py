"""Jobs of `batch/v1` as the API server shows them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from coplace.v1.jobs_pb2 import (
    JOB_OUTCOME_COMPLETED,
    JOB_OUTCOME_FAILED,
    JOB_OUTCOME_TIMED_OUT,
    JobOutcome,
)

from services.kubernetes.model.claims import GrantClaim, StopRequest
from services.kubernetes.model.names import CLAIM, COPY_OF, FINALIZER, GRANT, OUTCOME, STOP

_UID_LENGTH: Final = 8
# A Job's name becomes a label of its pods.
_MOST_NAME: Final = 63


class JobKey(NamedTuple):
    """Cluster, namespace and name of a Job."""

    cluster: str
    namespace: str
    name: str


class RunEnd(NamedTuple):
    """How and when a run ended, as its Job's conditions say."""

    outcome: JobOutcome.ValueType
    at_us: int


def time_us(text: str | None) -> int:
    """Parse a time of the API into microseconds; 0 where there is none."""
    return round(datetime.fromisoformat(text).timestamp() * 1e6) if text else 0


@dataclass(frozen=True, slots=True)
class KubernetesJob:
    """One Job of one cluster."""

    cluster: str
    fields: Mapping[str, Any]

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Return the metadata of the Job."""
        found: Mapping[str, Any] = self.fields["metadata"]
        return found

    @property
    def spec(self) -> Mapping[str, Any]:
        """Return what was asked for."""
        found: Mapping[str, Any] = self.fields["spec"]
        return found

    @property
    def status(self) -> Mapping[str, Any]:
        """Return the status of the Job, as the API server has it."""
        return self.fields.get("status") or {}

    @property
    def key(self) -> JobKey:
        """Return its cluster, namespace and name."""
        return JobKey(self.cluster, self.metadata["namespace"], self.metadata["name"])

    @property
    def uid(self) -> str:
        """Return the id of this Job: another one of its name has another one."""
        return str(self.metadata["uid"])

    @property
    def local_id(self) -> str:
        """Return what distinguishes it from all Jobs of its cluster, also those of its name in the
        same second."""
        return f"{self.key.namespace}/{self.key.name}/{self.uid[:_UID_LENGTH]}"

    @property
    def resource_version(self) -> str:
        """Return the version of what is shown: an update that names it changes nothing newer."""
        return str(self.metadata["resourceVersion"])

    @property
    def labels(self) -> Mapping[str, str]:
        """Return the labels of the Job."""
        return self.metadata.get("labels") or {}

    @property
    def annotations(self) -> Mapping[str, str]:
        """Return the annotations of the Job."""
        return self.metadata.get("annotations") or {}

    @property
    def finalizers(self) -> Sequence[str]:
        """Return the finalizers that have to be removed before it is deleted."""
        return self.metadata.get("finalizers") or ()

    @property
    def created_at_us(self) -> int:
        """Return when it was created, to the second."""
        return time_us(self.metadata["creationTimestamp"])

    @property
    def deleted_at_us(self) -> int:
        """Return when it was deleted; 0 where it was not."""
        return time_us(self.metadata.get("deletionTimestamp"))

    @property
    def is_taken(self) -> bool:
        """Return whether it is in Coplace's queue: it is not deleted before its end was
        published."""
        return FINALIZER in self.finalizers

    @property
    def is_copy(self) -> bool:
        """Return whether it runs for a Job of another cluster."""
        return COPY_OF in self.labels

    @property
    def copy_grant(self) -> int:
        """Return the grant that a copy runs under."""
        text = self.labels.get(GRANT, "")
        return int(text) if text.isdecimal() else 0

    @property
    def claim(self) -> GrantClaim:
        """Return the claim on its newest grant."""
        return GrantClaim.parse(self.annotations.get(CLAIM, ""))

    @property
    def stop(self) -> StopRequest | None:
        """Return the request to end its run, where there is one."""
        return StopRequest.parse(self.annotations.get(STOP, ""))

    @property
    def outcome(self) -> str:
        """Return how it ended, once that was published; empty before."""
        return self.annotations.get(OUTCOME, "")

    @property
    def is_suspended(self) -> bool:
        """Return whether it must have no pods."""
        return bool(self.spec.get("suspend"))

    @property
    def is_quiet(self) -> bool:
        """Return whether it is suspended and the Job controller has ended all of its pods."""
        status = self.status
        pods = (status.get("active") or 0) + (status.get("terminating") or 0)
        return (
            self.is_suspended
            and not pods
            and not status.get("startTime")
            and self._condition("Suspended") is not None
        )

    @property
    def suspended_at_us(self) -> int:
        """Return since when the Job controller has seen that it is suspended; 0 where it has
        not."""
        found = self._condition("Suspended")
        return time_us(found["lastTransitionTime"]) if found else 0

    @property
    def run_end(self) -> RunEnd | None:
        """Return how its pods ended, where they have."""
        if done := self._condition("Complete"):
            at = self.status.get("completionTime") or done["lastTransitionTime"]
            return RunEnd(JOB_OUTCOME_COMPLETED, time_us(at))
        if failed := self._condition("Failed"):
            is_late = failed.get("reason") == "DeadlineExceeded"
            outcome = JOB_OUTCOME_TIMED_OUT if is_late else JOB_OUTCOME_FAILED
            return RunEnd(outcome, time_us(failed["lastTransitionTime"]))
        return None

    @property
    def run_key(self) -> JobKey:
        """Return the key of what runs under its claim: itself, or its copy on another cluster."""
        claim = self.claim
        if claim.cluster in ("", self.cluster):
            return self.key
        end = f"-{self.uid[:_UID_LENGTH]}-{claim.grant}"
        name = f"{self.key.name[: _MOST_NAME - len(end)]}{end}"
        return JobKey(claim.cluster, self.key.namespace, name)

    def _condition(self, kind: str) -> Mapping[str, Any] | None:
        for found in self.status.get("conditions") or ():
            if found["type"] == kind and found["status"] == "True":
                condition: Mapping[str, Any] = found
                return condition
        return None

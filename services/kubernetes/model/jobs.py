"""Jobs of `batch/v1` as the API server shows them.

Users write most of what is in them, so that each field is read as what it may be: one of another
type counts as missing here, and `facts.py` names what a Job cannot be taken with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from coplace.v1.jobs_pb2 import (
    JOB_OUTCOME_COMPLETED,
    JOB_OUTCOME_FAILED,
    JOB_OUTCOME_TIMED_OUT,
)

from services.kubernetes.model.names import COPY_OF, FINALIZER, MANAGED_BY
from shared.kubernetes.facts import RunEnd
from shared.kubernetes.names import GRANT
from shared.kubernetes.objects import (
    ApiObject,
    condition_of,
    is_number,
    mapping_of,
    require_identity,
    texts_of,
    time_us,
    unmanaged,
    whole_of,
)
from shared.kueue.names import QUEUE_LABEL


class JobKey(NamedTuple):
    """Cluster, namespace and name of a Job."""

    cluster: str
    namespace: str
    name: str


class JobUid(NamedTuple):
    """Cluster and uid of a Job: another one of its name has another one."""

    cluster: str
    uid: str


def identified(cluster: str, fields: Mapping[str, Any]) -> "KubernetesJob":
    """Return the Job that an API server shows. Raises RejectedError where it has no
    identity."""
    job = KubernetesJob(cluster, unmanaged(mapping_of(fields)))
    require_identity(job.metadata)
    return job


@dataclass(frozen=True, slots=True)
class KubernetesJob(ApiObject):
    """One Job of one cluster."""

    cluster: str
    fields: Mapping[str, Any]

    @property
    def template(self) -> Mapping[str, Any]:
        """Return what its pods are made of."""
        return mapping_of(self.spec.get("template"))

    @property
    def pod(self) -> Mapping[str, Any]:
        """Return the specification of its pods."""
        return mapping_of(self.template.get("spec"))

    @property
    def key(self) -> JobKey:
        """Return its cluster, namespace and name."""
        return JobKey(self.cluster, self.metadata["namespace"], self.metadata["name"])

    @property
    def id(self) -> JobUid:
        """Return its cluster and uid."""
        return JobUid(self.cluster, self.uid)

    @property
    def is_deleted(self) -> bool:
        """Return whether somebody deleted it: it goes when its finalizers are removed."""
        return bool(self.metadata.get("deletionTimestamp"))

    @property
    def is_taken(self) -> bool:
        """Return whether it is not deleted before its finalizer was removed."""
        return FINALIZER in self.finalizers

    @property
    def is_copy(self) -> bool:
        """Return whether it says of itself that it runs for a Job of another cluster."""
        return COPY_OF in self.labels

    @property
    def is_in_kueue(self) -> bool:
        """Return whether Kueue says when it runs."""
        return QUEUE_LABEL in self.labels

    @property
    def is_managed(self) -> bool:
        """Return whether Kubernetes gives it no pods, and its status is what Coplace says."""
        return self.spec.get("managedBy") == MANAGED_BY

    @property
    def pods(self) -> int:
        """Return how many pods run at a time; 0 where that cannot be understood."""
        parallelism = whole_of(self.spec.get("parallelism", 1))
        completions = self.spec.get("completions")
        if parallelism is None or completions is None:
            return max(0, parallelism or 0)
        return max(0, min(parallelism, whole_of(completions) or 0))

    @property
    def granted(self) -> int:
        """Return the grant that its pods name; 0 where they name none."""
        labels = texts_of(mapping_of(self.template.get("metadata")).get("labels"))
        told = labels.get(GRANT, "")
        return int(told) if is_number(told) else 0

    @property
    def is_suspended(self) -> bool:
        """Return whether it must have no pods."""
        return self.spec.get("suspend") is True or self.is_managed

    @property
    def started_at_us(self) -> int:
        """Return since when its controller has it run; 0 where it does not."""
        return 0 if self.is_managed else time_us(self.status.get("startTime"))

    @property
    def is_quiet(self) -> bool:
        """Return whether it is suspended and the Job controller has ended all of its pods."""
        return self._has_no_pods and not self.status.get("startTime")

    @property
    def keeps_its_start(self) -> bool:
        """Return whether all of its pods were ended, and its controller keeps since when they ran:
        with that the Job would have to be let run as it is."""
        has_start = bool(self.started_at_us) and self.status.get("terminating") == 0
        return self._has_no_pods and has_start

    @property
    def _has_no_pods(self) -> bool:
        status = self.status
        return (
            self.is_suspended
            and not (status.get("active") or status.get("terminating"))
            and self._condition("Suspended") is not None
        )

    @property
    def suspended_at_us(self) -> int:
        """Return since when the Job controller has seen that it is suspended; 0 where it has
        not."""
        found = self._condition("Suspended")
        return time_us(found.get("lastTransitionTime")) if found else 0

    @property
    def pods_begun(self) -> int:
        """Return how many pods are ready, or have ended."""
        counts = (whole_of(self.status.get(name)) for name in ("ready", "succeeded", "failed"))
        return sum(count or 0 for count in counts)

    @property
    def run_end(self) -> RunEnd | None:
        """Return how its pods ended, where they have."""
        if done := self._condition("Complete"):
            at = self.status.get("completionTime") or done.get("lastTransitionTime")
            return RunEnd(JOB_OUTCOME_COMPLETED, time_us(at))
        if failed := self._condition("Failed"):
            is_late = failed.get("reason") == "DeadlineExceeded"
            outcome = JOB_OUTCOME_TIMED_OUT if is_late else JOB_OUTCOME_FAILED
            return RunEnd(outcome, time_us(failed.get("lastTransitionTime")))
        return None

    def _condition(self, kind: str) -> Mapping[str, Any] | None:
        return condition_of(self.status, kind)

"""What Coplace knows of a job of a cluster: a resource of its own, `JobRecord` of `coplace.io/v1`.

Users can neither read nor write it (the chart gives the right to one account), so that it is
believed: what was submitted, the word on each grant, why a run has to end, how it ended. It is
named by the uid of what it is about and outlives that until its end was published."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from sys import intern
from typing import Any, Final, NamedTuple, Self

from coplace.v1.jobs_pb2 import JobSubmitted
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError

from coplace_client.checks import require_text
from coplace_client.errors import RejectedError
from services.kubernetes.model.jobs import JobKey, JobUid, KubernetesJob
from services.kubernetes.model.names import JOB_UID, MANAGED_BY, QUEUE_NAME
from shared.domain.times import in_utc
from shared.kubernetes.claims import GrantClaim, StopRequest
from shared.kubernetes.explained_wait import ExplainedWait
from shared.kubernetes.objects import mapping_of, mappings_of, whole_of
from shared.kubernetes.texts import shown

API_VERSION: Final = "coplace.io/v1"
KIND: Final = "JobRecord"
PLURAL: Final = "jobrecords"
_UID_LENGTH: Final = 8
_MINUTE_US: Final = 60_000_000
# A Job's name becomes a label of its pods.
_MOST_NAME: Final = 63


class ConditionSeen(NamedTuple):
    """What of a condition its next change asks for: whether it holds, and since when that is so."""

    status: str
    since: str


@dataclass(frozen=True, slots=True)
class KubernetesRecord:
    """The record of one job. What was `submitted` is kept as bytes: of thousands, messages fill a
    memory. `record_uid` is the record's own id, which no user knows. A Job that
    `is_managed` has no pods of its own, and runs as a copy also at home. One that was
    released, at `released_at_us`, is Kubernetes' to start. `before` is what a start writes over."""

    id: JobUid
    record_uid: str
    version: str
    job_key: JobKey
    job_id: str
    asked: bytes
    claim: GrantClaim
    stop: StopRequest | None = None
    outcome: str = ""
    is_managed: bool = False
    released_at_us: int = 0
    before: Mapping[str, Any] | None = None
    why: str = ""
    expected_at: str = ""
    charged: str = ""
    conditions: Mapping[str, ConditionSeen] = field(default_factory=dict)

    @classmethod
    def parse(cls, cluster: str, fields: Mapping[str, Any]) -> Self:
        """Return the record that an API server has. Raises RejectedError, which names the field."""
        fields = mapping_of(fields)
        metadata, spec = mapping_of(fields.get("metadata")), mapping_of(fields.get("spec"))
        status, of = mapping_of(fields.get("status")), mapping_of(spec.get("job"))
        names = [str(of.get(name) or "") for name in ("namespace", "name")]
        own = [str(metadata.get(name) or "") for name in ("name", "uid", "resourceVersion")]
        for name in (*own, *names):
            require_text("metadata or spec.job", name)
        try:
            submitted = ParseDict(
                dict(mapping_of(spec.get("submitted"))), JobSubmitted(), ignore_unknown_fields=True
            )
        except ParseError as error:
            raise RejectedError("spec.submitted", str(error)[:200]) from error
        require_text("spec.submitted.jobId", submitted.job_id)
        found = cls(
            id=JobUid(cluster, own[0]),
            record_uid=own[1],
            version=own[2],
            job_key=JobKey(cluster, *names),
            job_id=submitted.job_id,
            asked=submitted.SerializeToString(),
            claim=GrantClaim(),
            is_managed=of.get("managedBy") == MANAGED_BY,
            before=mapping_of(spec["before"]) if "before" in spec else None,
        )
        return found.merged(status)

    def merged(self, status: Mapping[str, Any]) -> Self:
        """Return the record once this was merged into its status. Raises RejectedError."""
        told: dict[str, Any] = {
            name: read(status.get(name)) for name, (_, read) in _READ.items() if name in status
        }
        return replace(self, **{_READ[name][0]: value for name, value in told.items()})

    @property
    def submitted(self) -> JobSubmitted:
        """Return what was submitted."""
        return JobSubmitted.FromString(self.asked)

    @property
    def by_hand(self) -> StopRequest | None:
        """Return the request to end a run that somebody let begin without a grant; None: there is
        no such run."""
        return None if self.claim.is_live else self.stop

    @property
    def runs_as_copy(self) -> bool:
        """Return whether its newest run is a copy, on another cluster or at home."""
        is_away = self.claim.cluster not in ("", self.id.cluster)
        return is_away or (self.is_managed and bool(self.claim.cluster))

    @property
    def run_key(self) -> JobKey:
        """Return the key of what runs under its claim: the Job, or its copy on another cluster.
        The name of a copy holds the id of the record, so that nobody can take it beforehand."""
        if not self.runs_as_copy:
            return self.job_key
        end = f"-{self.record_uid[:_UID_LENGTH]}-{self.claim.grant}"
        name = f"{self.job_key.name[: _MOST_NAME - len(end)]}{end}"
        return JobKey(self.claim.cluster, self.job_key.namespace, name)


def _conditions_of(told: Any) -> Mapping[str, ConditionSeen]:
    return {intern(str(each.get("type"))): _condition_of(each) for each in mappings_of(told)}


def _condition_of(told: Mapping[str, Any]) -> ConditionSeen:
    words = (told.get("status"), told.get("lastTransitionTime"))
    return ConditionSeen(*(intern(str(each or "")) for each in words))


# The fields of a status: as what a record has each, and how it is read.
_READ: Final[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    "claim": ("claim", lambda told: GrantClaim.of_fields(mapping_of(told))),
    "stop": ("stop", lambda told: StopRequest.of_fields(mapping_of(told))),
    "outcome": ("outcome", lambda told: str(told or "")),
    "releasedAtUs": ("released_at_us", lambda told: whole_of(told) or 0),
    "why": ("why", lambda told: str(told or "")),
    "expectedAt": ("expected_at", lambda told: str(told or "")),
    "charged": ("charged", lambda told: str(mapping_of(told).get("words") or "")),
    "conditions": ("conditions", _conditions_of),
}


def record_body(
    job: KubernetesJob,
    submitted: JobSubmitted,
    queue: str,
    conditions: Sequence[Mapping[str, Any]] = (),
) -> Mapping[str, Any]:
    """Return the record of a Job that is taken into the queue."""
    key = job.key
    labels = {QUEUE_NAME: queue, JOB_UID: job.local_id.rpartition("/")[2]}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": job.uid, "labels": labels},
        "spec": {
            "job": {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "namespace": key.namespace,
                "name": key.name,
                **({"managedBy": MANAGED_BY} if job.is_managed else {}),
            },
            "before": _before(job),
            "submitted": MessageToDict(submitted),
        },
        "status": {"conditions": list(conditions)},
    }


def _before(job: KubernetesJob) -> Mapping[str, Any]:
    """What a start writes over, as the user of a Job wrote it; it is believed in nothing else."""
    affinity = mapping_of(job.pod.get("affinity"))
    found = {
        "activeDeadlineSeconds": job.spec.get("activeDeadlineSeconds"),
        "nodeAffinity": affinity.get("nodeAffinity"),
        "nodeSelector": job.pod.get("nodeSelector"),
    }
    return {name: told for name, told in found.items() if told}


def claiming(record: KubernetesRecord, claim: GrantClaim) -> Mapping[str, Any]:
    """Keep the word on a grant; no request to end a run is left, and no wait is explained."""
    told = {"claim": claim.to_fields(), "stop": None, "why": None, "expectedAt": None}
    return _update(record, told)


def answering(record: KubernetesRecord, claim: GrantClaim) -> Mapping[str, Any]:
    """Keep the word on a grant beside what runs."""
    return _update(record, {"claim": claim.to_fields()})


def stopping(record: KubernetesRecord, stop: StopRequest) -> Mapping[str, Any]:
    """Keep that a run has to end."""
    return _update(record, {"stop": stop.to_fields()})


def stopped(record: KubernetesRecord) -> Mapping[str, Any]:
    """Keep that nothing runs that has to end."""
    return _update(record, {"stop": None})


def releasing(record: KubernetesRecord, at_us: int) -> Mapping[str, Any]:
    """Keep that the Job is Kubernetes' to start."""
    return _update(record, {"releasedAtUs": at_us})


def explaining(record: KubernetesRecord, explained: ExplainedWait) -> Mapping[str, Any]:
    """Keep why a Job waits, and to the minute when it is expected to start."""
    at_s = explained.expected_us // _MINUTE_US * 60
    expected_at = in_utc(at_s) if at_s else None
    return _update(record, {"why": shown(explained.why), "expectedAt": expected_at})


def charging(record: KubernetesRecord, words: str, price_su: str) -> Mapping[str, Any]:
    """Keep what the newest charge is."""
    return _update(record, {"charged": {"words": shown(words), "priceSu": price_su}})


def closing(
    record: KubernetesRecord,
    outcome: str,
    claim: GrantClaim | None = None,
    *,
    is_charged: bool = False,
) -> Mapping[str, Any]:
    """Keep how it ended, once that was published. A run without a grant is yet to be charged."""
    told: dict[str, Any] = {"outcome": shown(outcome)}
    if record.by_hand is None or is_charged:
        told["stop"] = None
    if claim is not None:
        told["claim"] = claim.to_fields()
    return _update(record, told)


def _update(record: KubernetesRecord, status: Mapping[str, Any]) -> Mapping[str, Any]:
    version = {"uid": record.record_uid, "resourceVersion": record.version}
    return {"metadata": version, "status": status}

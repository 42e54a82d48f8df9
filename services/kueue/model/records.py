"""What Coplace knows of a Workload: a resource of its own, `WorkloadRecord` of `coplace.io/v1`.

It is named by the uid of the Workload, and outlives it until its end was published. It lies beside
the Workload, since Kueue looks anew at whatever is written there. Who may write it is in the chart;
what cannot be read is refused, never believed in part."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, Self

from coplace.v1.jobs_pb2 import JobSubmitted
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError

from coplace_client.checks import require_text
from coplace_client.errors import RejectedError
from shared.kubernetes.claims import GrantClaim, StopRequest
from shared.kubernetes.explained_wait import ExplainedWait
from shared.kubernetes.objects import mapping_of, whole_of
from shared.kubernetes.packed import pack, unpack
from shared.kubernetes.texts import shown
from shared.kueue.workloads import KueueWorkload, RecordName

Body = Mapping[str, Any]
RECORD_VERSION: Final = "coplace.io/v1"
RECORD_KIND: Final = "WorkloadRecord"
LET_GO_LEAST: Final = 1 << 48
"""Labels of pods that were let go are times, us since 1970; those of others are grants, below."""


@dataclass(frozen=True, slots=True)
class QuotaHold:
    """The newest word on whether Coplace may start a Workload: it may not while Kueue has no quota
    for it. `reservation` is that of the word; `at_us` is 0 where there was none. `tried` counts how
    often the Workload gave its quota back since its last start."""

    is_held: bool = False
    at_us: int = 0
    reservation: str = ""
    tried: int = 0

    def to_fields(self) -> dict[str, Any]:
        """Return the word as its record has it."""
        return {
            "isHeld": self.is_held,
            "atUs": self.at_us,
            "reservation": self.reservation,
            "tried": self.tried,
        }

    @classmethod
    def of_fields(cls, told: Mapping[str, Any]) -> Self:
        """Return the word of a record; where that has none, nobody holds the Workload."""
        return cls(
            is_held=told.get("isHeld") is True,
            at_us=whole_of(told.get("atUs")) or 0,
            reservation=str(told.get("reservation") or ""),
            tried=whole_of(told.get("tried")) or 0,
        )


@dataclass(frozen=True, slots=True)
class LetGo:
    """That Kueue may start a Workload by its own rules, without a grant: with which reservation of
    quota, since when, and of several clusters on which: the first that has quota too. The time
    distinguishes its pods from those of other runs."""

    reservation: str
    at_us: int
    cluster: str = ""

    def to_fields(self) -> dict[str, Any]:
        """Return the word as its record has it."""
        return {"reservation": self.reservation, "atUs": self.at_us, "cluster": self.cluster}

    @classmethod
    def of_fields(cls, told: Mapping[str, Any]) -> Self | None:
        """Return the word of a record; None where it has none."""
        at_us = whole_of(told.get("atUs")) or 0
        words = (str(told.get(name) or "") for name in ("reservation", "cluster"))
        reservation, cluster = words
        return cls(reservation, at_us, cluster) if at_us else None


@dataclass(frozen=True, slots=True)
class PastRun:
    """The newest grant that led to no end of its Workload: what it was claimed with, why Kueue took
    its quota, and when its last pod ended, us. Where no pod of it ran it is declined, else it is a
    requeue."""

    claim: GrantClaim
    reason: str
    ended_us: int = 0

    def is_newer_than(self, declined: int) -> bool:
        """Return whether no grant was declined since. One that was let go ran without any."""
        return self.claim.grant >= declined or (
            not self.claim.grant and self.claim.declined == declined
        )

    def to_fields(self) -> dict[str, Any]:
        """Return the run as its record has it."""
        run = {"reason": shown(self.reason), "endedUs": self.ended_us}
        return {"claim": self.claim.to_fields(), **run}

    @classmethod
    def of_fields(cls, told: Mapping[str, Any]) -> Self | None:
        """Return the run of a record; None where it has none. Raises RejectedError."""
        if not told:
            return None
        claim = GrantClaim.of_fields(mapping_of(told.get("claim")))
        reason = shown(told.get("reason") or "")
        return cls(claim, reason, whole_of(told.get("endedUs")) or 0)


@dataclass(frozen=True, slots=True)
class WorkloadRecord:
    """The record of one Workload: what was submitted, the word on each grant, for which reservation
    of quota the newest one is, why it waits, what became of the run before, why a run has to end,
    how it ended, whether Kueue may start it by its own rules.

    `version` is its own, empty where it was never written; `workload_version` is that of the
    Workload that it was decided on: an older one says less than the record knows.
    """

    submitted: JobSubmitted
    claim: GrantClaim = field(default_factory=GrantClaim)
    reservation: str = ""
    hold: QuotaHold = field(default_factory=QuotaHold)
    explained: ExplainedWait = field(default_factory=ExplainedWait)
    past: PastRun | None = None
    stop: StopRequest | None = None
    outcome: str = ""
    let_go: LetGo | None = None
    version: str = ""
    workload_version: str = ""

    @property
    def job_id(self) -> str:
        """Return the id that Coplace knows the job by."""
        return self.submitted.job_id

    def held(self, reservation: str, now_us: int) -> Self:
        """Return the record once Coplace may not start it, as of a reservation of quota."""
        at_us = max(now_us, self.hold.at_us + 1)
        return replace(self, hold=QuotaHold(True, at_us, reservation, self.hold.tried))

    def letting_go(self, reservation: str, now_us: int) -> Self:
        """Return the record once Kueue may start it by its own rules: Coplace may not."""
        held = self.held(reservation, now_us)
        return replace(held, let_go=LetGo(reservation, held.hold.at_us))

    def is_let_go(self, reservation: str) -> bool:
        """Return whether Kueue may start it by its own rules, within a reservation of quota."""
        return self.let_go is not None and self.let_go.reservation == reservation

    def ran_as(self, attempt: int) -> bool:
        """Return whether the run before, whose end was published, was of an attempt or a later
        one."""
        past = self.past
        return past is not None and past.claim.has_begun and attempt <= past.claim.attempt

    @property
    def cluster(self) -> str:
        """Return the cluster that it was granted, or let go to; empty where neither is known."""
        if self.claim.is_live:
            return self.claim.cluster
        return self.let_go.cluster if self.let_go else ""

    @property
    def run_label(self) -> int:
        """Return the number that its pods carry, by which its run is known."""
        return self.let_go.at_us if self.let_go else self.claim.grant

    def put_off(self, reservation: str, now_us: int, explained: ExplainedWait) -> Self:
        """Return the record once it gives its quota back, since Coplace starts it later."""
        held = self.held(reservation, now_us)
        hold = replace(held.hold, tried=held.hold.tried + 1)
        return replace(held, hold=hold, explained=explained)

    def released(self, reservation: str, now_us: int) -> Self:
        """Return the record once Coplace may start it, within a reservation of quota."""
        if not self.hold.is_held:
            return self
        at_us = max(now_us, self.hold.at_us + 1)
        return replace(self, hold=QuotaHold(False, at_us, reservation, self.hold.tried))

    def to_status(self) -> Mapping[str, Any]:
        """Return what its object has: a field that it lacks is null, so that merging removes it."""
        return {
            "claim": self.claim.to_fields(),
            "reservation": self.reservation,
            "hold": self.hold.to_fields(),
            "explained": self.explained.to_fields() if self.explained.why else None,
            "past": self.past.to_fields() if self.past else None,
            "stop": self.stop.to_fields() if self.stop else None,
            "outcome": shown(self.outcome) or None,
            "letGo": self.let_go.to_fields() if self.let_go else None,
            "workloadVersion": self.workload_version,
        }


def name_of(fields: Mapping[str, Any]) -> RecordName:
    """Return whose record an object is. Raises RejectedError where it does not say."""
    metadata = mapping_of(mapping_of(fields).get("metadata"))
    of = mapping_of(mapping_of(fields.get("spec")).get("workload"))
    found = RecordName(
        *(str(each or "") for each in (metadata.get("name"), of.get("namespace"), of.get("name")))
    )
    for each in found:
        require_text("metadata.name or spec.workload", each)
    return found


def parse_record(fields: Mapping[str, Any]) -> WorkloadRecord:
    """Return the record that an API server has. Raises RejectedError for one that cannot be
    read."""
    spec, status = mapping_of(fields.get("spec")), mapping_of(fields.get("status"))
    try:
        own = dict(mapping_of(spec.get("submitted")))
        submitted = ParseDict(own, JobSubmitted(), ignore_unknown_fields=True)
    except ParseError as error:
        raise RejectedError("spec.submitted", str(error)[:200]) from error
    require_text("spec.submitted.jobId", submitted.job_id)
    return _record(submitted, status, version_of(fields))


def _record(submitted: JobSubmitted, status: Mapping[str, Any], version: str) -> WorkloadRecord:
    """Raises RejectedError for a status that cannot be read."""
    return WorkloadRecord(
        submitted=submitted,
        claim=GrantClaim.of_fields(mapping_of(status.get("claim"))),
        reservation=str(status.get("reservation") or ""),
        hold=QuotaHold.of_fields(mapping_of(status.get("hold"))),
        explained=ExplainedWait.of_fields(mapping_of(status.get("explained"))),
        past=PastRun.of_fields(mapping_of(status.get("past"))),
        stop=StopRequest.of_fields(mapping_of(status.get("stop"))),
        outcome=str(status.get("outcome") or ""),
        let_go=LetGo.of_fields(mapping_of(status.get("letGo"))),
        version=version,
        workload_version=str(status.get("workloadVersion") or ""),
    )


class PackedRecord(NamedTuple):
    """A record in little memory: thousands are kept, and few are looked at."""

    submitted: bytes
    status: bytes
    version: str

    @classmethod
    def of(cls, record: WorkloadRecord) -> Self:
        """Pack a record."""
        status = pack(record.to_status())
        return cls(record.submitted.SerializeToString(), status, record.version)

    @property
    def record(self) -> WorkloadRecord:
        """Return the record."""
        submitted = JobSubmitted.FromString(self.submitted)
        return _record(submitted, unpack(self.status), self.version)


def version_of(fields: Mapping[str, Any]) -> str:
    """Return the version of an object."""
    return str(mapping_of(fields.get("metadata")).get("resourceVersion") or "")


def recording(workload: KueueWorkload, record: WorkloadRecord) -> Body:
    """Keep what is known of a Workload, where its record is as it was read; one that was never
    written is created."""
    status = replace(record, workload_version=workload.resource_version).to_status()
    if record.version:
        return {"metadata": {"resourceVersion": record.version}, "status": status}
    key = workload.key
    return {
        "apiVersion": RECORD_VERSION,
        "kind": RECORD_KIND,
        "metadata": {"name": workload.id.uid},
        "spec": {
            "workload": {"namespace": key.namespace, "name": key.name},
            "submitted": MessageToDict(record.submitted),
        },
        "status": {name: told for name, told in status.items() if told is not None},
    }

"""What Coplace knows of a Workload, in an annotation of it that users may not write.

Kueue's roles let users see Workloads and change none; its administrators may. So it is read as it
may be, and what cannot be read is refused, never believed in part."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

import orjson
from coplace.v1.jobs_pb2 import JobSubmitted
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError

from coplace_client.checks import require_text
from coplace_client.errors import RejectedError
from services.kueue.model.explained_wait import ExplainedWait
from services.kueue.model.names import FINALIZER, RECORD
from services.kueue.model.workloads import KueueWorkload
from shared.kubernetes.claims import GrantClaim, StopRequest
from shared.kubernetes.objects import mapping_of, whole_of
from shared.kubernetes.texts import shown

Body = Mapping[str, Any]
_FIELD: Final = f"metadata.annotations[{RECORD}]"


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
class PastRun:
    """The newest grant that led to no end of its Workload: what it was claimed with, why Kueue took
    its quota, and when its last pod ended, us. Where no pod of it ran it is declined, else it is a
    requeue."""

    claim: GrantClaim
    reason: str
    ended_us: int = 0

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
    how it ended."""

    submitted: JobSubmitted
    claim: GrantClaim = field(default_factory=GrantClaim)
    reservation: str = ""
    hold: QuotaHold = field(default_factory=QuotaHold)
    explained: ExplainedWait = field(default_factory=ExplainedWait)
    past: PastRun | None = None
    stop: StopRequest | None = None
    outcome: str = ""

    @property
    def job_id(self) -> str:
        """Return the id that Coplace knows the job by."""
        return self.submitted.job_id

    def held(self, reservation: str, now_us: int) -> Self:
        """Return the record once Coplace may not start it, as of a reservation of quota."""
        at_us = max(now_us, self.hold.at_us + 1)
        return replace(self, hold=QuotaHold(True, at_us, reservation, self.hold.tried))

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

    def to_json(self) -> str:
        """Return the record as its annotation has it."""
        told: dict[str, Any] = {
            "submitted": MessageToDict(self.submitted),
            "claim": self.claim.to_fields(),
            "reservation": self.reservation,
            "hold": self.hold.to_fields(),
        }
        if self.explained.why:
            told["explained"] = self.explained.to_fields()
        if self.past is not None:
            told["past"] = self.past.to_fields()
        if self.stop is not None:
            told["stop"] = self.stop.to_fields()
        if self.outcome:
            told["outcome"] = shown(self.outcome)
        return orjson.dumps(told).decode()


def parse_record(workload: KueueWorkload) -> WorkloadRecord | None:
    """Return the record of a Workload; None where it has none. Raises RejectedError for one that
    cannot be read."""
    text = workload.annotations.get(RECORD)
    if not text:
        return None
    try:
        told = mapping_of(orjson.loads(text))
        fields = dict(mapping_of(told.get("submitted")))
        submitted = ParseDict(fields, JobSubmitted(), ignore_unknown_fields=True)
    except (orjson.JSONDecodeError, ParseError) as error:
        raise RejectedError(_FIELD, str(error)[:200]) from error
    require_text(f"{_FIELD}.submitted.jobId", submitted.job_id)
    return WorkloadRecord(
        submitted=submitted,
        claim=GrantClaim.of_fields(mapping_of(told.get("claim"))),
        reservation=str(told.get("reservation") or ""),
        hold=QuotaHold.of_fields(mapping_of(told.get("hold"))),
        explained=ExplainedWait.of_fields(mapping_of(told.get("explained"))),
        past=PastRun.of_fields(mapping_of(told.get("past"))),
        stop=StopRequest.of_fields(mapping_of(told.get("stop"))),
        outcome=str(told.get("outcome") or ""),
    )


def recording(workload: KueueWorkload, record: WorkloadRecord) -> Body:
    """Keep what is known of a Workload as it was seen. It is kept from being deleted until its end
    was published."""
    version = {"uid": workload.id.uid, "resourceVersion": workload.resource_version}
    metadata = {**version, "annotations": {RECORD: record.to_json()}}
    if workload.is_kept and record.outcome:
        left = [each for each in workload.finalizers if each != FINALIZER]
        return {"metadata": {**metadata, "finalizers": left}}
    if not workload.is_kept and not record.outcome and not workload.deleted_at_us:
        return {"metadata": {**metadata, "finalizers": [*workload.finalizers, FINALIZER]}}
    return {"metadata": metadata}

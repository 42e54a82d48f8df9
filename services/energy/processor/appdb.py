"""AppDB: what each application's runs were like, by node model and P-state."""

from collections.abc import Iterable, Mapping
from typing import Final

from coplace.v1.energy_pb2 import AppIdMismatch, MetricDeviation, SignatureAt, SignatureUpdated
from coplace.v1.telemetry_pb2 import SignatureMeasured
from google.protobuf.message import Message

from services.energy.processor.conformity import Deviation
from services.energy.processor.measured import measured_of, require_few_pstates, signature_of
from services.energy.processor.row import Mismatch, Row, Run
from shared.domain.signature import Signature
from shared.messaging.event import Event, Publish
from shared.messaging.stage import AlreadyAppliedError, Round

SOURCE: Final = "energy.appdb"
OUTPUT: Final = "energy.signatures"
MISMATCHES: Final = "energy.mismatches"


class AppDB:
    """Folds telemetry.signatures into energy.signatures, keyed by `{app_id}|{node_model}`.

    A job's run that does not behave like its application is not folded, it goes to
    energy.mismatches.
    """

    def __init__(self, restored: Mapping[str, bytes]) -> None:
        self._rows = {key: Row.from_bytes(value) for key, value in restored.items()}
        self._waiting = {key for key, row in self._rows.items() if row.waiting}
        self._changed: set[str] = set()

    def handle(self, event: Event) -> Iterable[Publish]:
        """Remember a run until its round ends; kernels are no applications."""
        message = event.payload
        if not isinstance(message, SignatureMeasured) or message.kernel:
            return []
        signature = signature_of(message)
        run = Run(event.time_us, event.id, event.traceparent, message.job_id, signature)
        row = self._rows.setdefault(event.key, Row())
        if row.knows(event.id):
            raise AlreadyAppliedError(event.id)
        waiting = (one.signature.freq_ghz for one in row.waiting)
        require_few_pstates({*row.means, *waiting, run.signature.freq_ghz})
        row.waiting.append(run)
        self._waiting.add(event.key)
        self._changed.add(event.key)
        return []

    def end_round(self, ended: Round) -> Iterable[Publish]:
        """Publish every row that a run of this round changed, and the runs that changed none."""
        published = [p for key in sorted(self._waiting) for p in self._folded(key, ended)]
        self._changed |= self._waiting
        self._waiting = set()
        return published

    def changes(self) -> Mapping[str, bytes | None]:
        """The rows that changed."""
        changed, self._changed = self._changed, set()
        return {key: self._rows[key].to_bytes() for key in sorted(changed)}

    def _folded(self, key: str, ended: Round) -> Iterable[Publish]:
        row = self._rows[key]
        newest, mismatches = row.fold()
        if newest is not None:
            payload = _updated(row, newest)
            yield _published(OUTPUT, key, str(ended.number), ended, payload, newest)
        for one in mismatches:
            yield _published(MISMATCHES, key, one.run.event_id, ended, _mismatch(one), one.run)


def _published(
    topic: str, key: str, sequence: str, ended: Round, payload: Message, cause: Run
) -> Publish:
    event = Event(
        id=f"{SOURCE}/{payload.DESCRIPTOR.full_name}/{key}/{sequence}",
        source=SOURCE,
        time_us=ended.ended_at_us,
        key=key,
        payload=payload,
        traceparent=cause.traceparent,
    )
    return Publish(topic, event)


def _updated(row: Row, newest: Run) -> SignatureUpdated:
    return SignatureUpdated(
        app_id=newest.signature.app_id,
        node_model=newest.signature.node_model,
        tpi_scale=newest.signature.tpi_scale,
        at=[_at(row.means[freq_ghz]) for freq_ghz in sorted(row.means)],
        updated_by=newest.event_id,
    )


def _at(mean: Signature) -> SignatureAt:
    return SignatureAt(
        freq_ghz=mean.freq_ghz,
        time_s=mean.time_s,
        power_w=mean.power_w,
        cpi=mean.cpi,
        tpi=mean.tpi,
        mem_gbps=mean.mem_gbps,
        count=mean.count,
    )


def _mismatch(found: Mismatch) -> AppIdMismatch:
    run, verdict = found
    return AppIdMismatch(
        app_id=run.signature.app_id,
        node_model=run.signature.node_model,
        job_id=run.job_id,
        compared_ghz=verdict.compared_ghz,
        metrics=[_deviation(each) for each in verdict.deviations],
        measured=measured_of(run.signature, run.job_id),
        measured_by=run.event_id,
    )


def _deviation(each: Deviation) -> MetricDeviation:
    return MetricDeviation(
        metric=each.metric,
        measured=each.measured,
        expected=each.expected,
        deviation=each.deviation,
        tolerance=each.tolerance,
        differs=each.differs,
    )

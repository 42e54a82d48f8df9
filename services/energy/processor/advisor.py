"""Advises jobs that run something else than expected, or something new, on their frequency."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from coplace.v1.energy_pb2 import (
    ADVICE_REASON_FIRST_RUN,
    ADVICE_REASON_MISMATCH,
    AdviceReason,
    AdvisedPoint,
    AppIdMismatch,
    AppIdMisused,
    CoefficientsPublished,
    FrequencyAdvised,
    SignatureUpdated,
)
from coplace.v1.telemetry_pb2 import SignatureMeasured
from google.protobuf.message import Message

from coplace_client.errors import RejectedError
from coplace_client.signature import Signature
from services.energy.advice import Advice, AdvicePolicy, Point, advice
from services.energy.processor import runs
from services.energy.processor.measured import signature_of
from services.energy.processor.misuse import Count, Misuse
from services.energy.processor.profile import METRICS
from services.energy.processor.runs import JobRun, Runs
from shared.arrays.known_arrays import KnownArrays
from shared.catalogue.digest import require_sha256
from shared.catalogue.event import Event, Publish
from shared.catalogue.payloads.coefficients import coefficients_of
from shared.catalogue.schemas import names_of
from shared.domain.job import JobState
from shared.streams.stages.stage import Round
from shared.streams.state.state import State

SOURCE: Final = "energy.advisor"
CONSUMES: Final = runs.CONSUMES | names_of(
    AppIdMismatch, SignatureMeasured, SignatureUpdated, CoefficientsPublished
)
OUTPUT: Final = "energy.advice"


@dataclass(frozen=True, slots=True)
class RunToAdvise:
    """A run to advise on; `metrics` differ from the application's, none on a first run."""

    time_us: int
    event_id: str
    traceparent: str
    job_id: str
    measured: Signature
    metrics: tuple[str, ...]

    @property
    def row(self) -> str:
        """Return the key of its row in the AppDB."""
        return f"{self.measured.app_id}|{self.measured.node_model}"


class Advisor:
    """Folds mismatches, signatures, coefficients and jobs into energy.advice; a single stage."""

    def __init__(
        self,
        restored: Mapping[str, bytes],
        policy: AdvicePolicy,
        half_life_days: float,
        remember_s: float,
    ) -> None:
        self._policy = policy
        self._state = State(restored)
        self._cases = self._state.table("case", RunToAdvise)
        # Whether a row of the AppDB was there before the open round began.
        self._rows = self._state.table("row", bool)
        self._new_rows = {row for row, is_old in self._rows.items() if not is_old}
        arrays = KnownArrays(self._state)
        self._runs = Runs(self._state.table("job", JobRun), arrays, round(remember_s * 1e6))
        self._misuse = Misuse(self._state.table("user", Count), half_life_days)
        self._models = self._state.table("coefficients", CoefficientsPublished)
        self._state.require_all_read()
        self._coefficients = {
            name: coefficients_of(message) for name, message in self._models.items()
        }

    def handle(self, event: Event) -> Iterable[Publish]:
        """Remember what the round's end decides on. Raises RejectedError."""
        match event.payload:
            case AppIdMismatch() as found:
                metrics = _differing(found)
                self._remember(event, found.measured, metrics)
            case SignatureMeasured() as measured:
                if measured.job_id and not measured.kernel:
                    self._remember_first_run(event, measured)
            case SignatureUpdated() as row:
                self._see(f"{row.app_id}|{row.node_model}")
            case CoefficientsPublished() as message:
                require_sha256(message)
                self._learn(message)
            case message:
                self._runs.fold(message)
        return []

    def end_round(self, ended: Round) -> Iterable[Publish]:
        """Advise on each case of the round, in the order of (event time, id)."""
        cases = sorted(self._cases.values(), key=lambda case: (case.time_us, case.event_id))
        newest = {case.job_id: case for case in cases}
        published = [p for case in cases for p in self._counted(case, ended)]
        published += [p for case in newest.values() for p in self._advised(case, ended)]
        for case in cases:
            self._cases.drop(case.event_id)
        for row in sorted(self._new_rows):
            self._rows.put(row, True)
        self._new_rows.clear()
        self._runs.forget(ended.ended_at_us)
        return published

    def changes(self) -> Mapping[str, bytes | None]:
        """Return what changed, by table."""
        return self._state.changes()

    def _learn(self, message: CoefficientsPublished) -> None:
        self._coefficients[message.node_model] = coefficients_of(message)
        self._models.put(message.node_model, message)

    def _see(self, row: str) -> None:
        if row not in self._rows:
            self._rows.put(row, False)
            self._new_rows.add(row)

    def _remember_first_run(self, event: Event, measured: SignatureMeasured) -> None:
        if not self._rows.get(f"{measured.app_id}|{measured.node_model}"):
            self._remember(event, measured, ())

    def _remember(
        self, event: Event, measured: SignatureMeasured, metrics: tuple[str, ...]
    ) -> None:
        signature = signature_of(measured)
        self._cases.put(
            event.id,
            RunToAdvise(
                event.time_us, event.id, event.traceparent, measured.job_id, signature, metrics
            ),
        )

    def _counted(self, case: RunToAdvise, ended: Round) -> Iterator[Publish]:
        """A job counts once an attempt, however often it is measured."""
        run = self._runs.get(case.job_id)
        if run is None or run.is_counted or not case.metrics:
            return
        count = self._misuse.add(run.user, ended.ended_at_us)
        self._runs.put(case.job_id, run._replace(is_counted=True))
        misused = AppIdMisused(
            job_id=case.job_id,
            attempt=run.attempt,
            user=run.user,
            app_id=case.measured.app_id,
            node_model=case.measured.node_model,
            metrics=case.metrics,
            user_mismatches=count,
            found_by=case.event_id,
        )
        yield _published(case, ended, misused)

    def _advised(self, case: RunToAdvise, ended: Round) -> Iterator[Publish]:
        """Advise nothing for a job that has ended, or that got the same advice before."""
        run = self._runs.get(case.job_id)
        table = self._coefficients.get(case.measured.node_model)
        if run is None or run.state != JobState.RUNNING or table is None:
            return
        found = advice(self._policy, table, case.measured)
        if found is None or found.predicted.freq_ghz == run.advised_ghz:
            return
        self._runs.put(case.job_id, run._replace(advised_ghz=found.predicted.freq_ghz))
        yield _published(case, ended, self._message(case, run, found, table.version, ended))

    def _message(
        self, case: RunToAdvise, run: JobRun, found: Advice, version: str, ended: Round
    ) -> FrequencyAdvised:
        return FrequencyAdvised(
            job_id=case.job_id,
            attempt=run.attempt,
            user=run.user,
            app_id=case.measured.app_id,
            cluster=run.cluster,
            node_model=case.measured.node_model,
            freq_ghz=found.predicted.freq_ghz,
            reason=_reason(case),
            rule=self._policy.rule,
            present=_point(found.present),
            predicted=_point(found.predicted),
            coefficients_version=version,
            user_mismatches=self._misuse.of(run.user, ended.ended_at_us),
        )


def _differing(found: AppIdMismatch) -> tuple[str, ...]:
    if not {each.metric for each in found.metrics} <= set(METRICS):
        raise RejectedError("metrics", f"must be of {', '.join(METRICS)}")
    return tuple(sorted({each.metric for each in found.metrics if each.differs}, key=METRICS.index))


def _reason(case: RunToAdvise) -> AdviceReason.ValueType:
    return ADVICE_REASON_MISMATCH if case.metrics else ADVICE_REASON_FIRST_RUN


def _point(point: Point) -> AdvisedPoint:
    return AdvisedPoint(
        freq_ghz=point.freq_ghz,
        time_s=point.time_s,
        power_w=point.power_w,
        energy_j=point.time_s * point.power_w,
    )


def _published(case: RunToAdvise, ended: Round, payload: Message) -> Publish:
    event = Event(
        id=f"{SOURCE}/{payload.DESCRIPTOR.full_name}/{case.job_id}/{ended.number}",
        source=SOURCE,
        time_us=ended.ended_at_us,
        key=case.job_id,
        payload=payload,
        traceparent=case.traceparent,
    )
    return Publish(OUTPUT, event)

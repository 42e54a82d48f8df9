"""AppDB: what each application's runs were like, by node model and P-state."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from coplace.v1.energy_pb2 import AppIdMismatch, MetricDeviation, SignatureAt, SignatureUpdated
from coplace.v1.telemetry_pb2 import SignatureMeasured
from google.protobuf.message import Message

from coplace_client.checks import require_text
from coplace_client.signature import Signature
from services.energy.processor.conformity import Deviation
from services.energy.processor.measured import measured_of, require_few_pstates, signature_of
from services.energy.processor.row import AppDBRow, MeasuredRun, Mismatch, Rival
from shared.catalogue.event import Event, Publish
from shared.catalogue.schemas import names_of
from shared.streams.stages.stage import AlreadyAppliedError, Round
from shared.streams.state.rows import RowCodec
from shared.streams.state.state import State

SOURCE: Final = "energy.appdb"
CONSUMES: Final = names_of(SignatureMeasured)
OUTPUT: Final = "energy.signatures"
MISMATCHES: Final = "energy.mismatches"


class _KeptRival(NamedTuple):
    """A rival with its row and the P-state that it was compared at."""

    row: str
    freq_ghz: float
    rival: Rival


# A rival is a record of its own: a row has one for each of its P-states.
_ROWS: Final = RowCodec(AppDBRow, without=("rivals",))
_RIVALS: Final = RowCodec(_KeptRival)
_WAITING: Final = RowCodec(MeasuredRun)


class AppDB:
    """Folds telemetry.signatures into energy.signatures, keyed by `{app_id}|{node_model}`.

    A job's run that does not behave like its application is not folded, it goes to
    energy.mismatches.
    """

    def __init__(self, restored: Mapping[str, bytes]) -> None:
        self._state = State(restored)
        self._rows = self._state.table("row", _ROWS)
        self._rivals = self._state.table("rival", _RIVALS)
        self._waiting = self._state.table("waiting", _WAITING)
        self._state.require_all_read()
        for key, freq_ghz, rival in self._rivals.values():
            self._row(key).rivals[freq_ghz] = rival
        self._round: defaultdict[str, dict[str, MeasuredRun]] = defaultdict(dict)
        for run in self._waiting.values():
            self._round[run.row][run.event_id] = run

    def handle(self, event: Event) -> Iterable[Publish]:
        """Remember a run until its round ends; kernels are no applications."""
        message = event.payload
        if not isinstance(message, SignatureMeasured) or message.kernel:
            return []
        if message.job_id:
            require_text("job_id", message.job_id)
        signature = signature_of(message)
        run = MeasuredRun(event.time_us, event.id, event.traceparent, message.job_id, signature)
        row, waiting = self._row(run.row), self._round.get(run.row, {})
        if event.id in row.seen or event.id in waiting:
            raise AlreadyAppliedError(event.id)
        others = (one.signature.freq_ghz for one in waiting.values())
        require_few_pstates({*row.means, *others, run.signature.freq_ghz})
        self._round[run.row][run.event_id] = run
        self._waiting.put(run.key, run)
        return []

    def end_round(self, ended: Round) -> Iterable[Publish]:
        """Publish every row that a run of this round changed, and the runs that changed none."""
        published = [p for key in sorted(self._round) for p in self._folded(key, ended)]
        self._round.clear()
        return published

    def changes(self) -> Mapping[str, bytes | None]:
        """Return rows, what rivals them, and waiting runs, as far as they changed."""
        return self._state.changes()

    def _row(self, key: str) -> AppDBRow:
        return self._rows.get(key) or AppDBRow()

    def _folded(self, key: str, ended: Round) -> Iterable[Publish]:
        row, runs = self._row(key), self._round[key].values()
        before = set(row.rivals)
        newest, mismatches = row.fold(runs)
        self._keep(key, row, before)
        for run in runs:
            self._waiting.drop(run.key)
        if newest is not None:
            payload = _updated(row, newest)
            yield _published(OUTPUT, key, str(ended.number), ended, payload, newest)
        for one in mismatches:
            yield _published(MISMATCHES, key, one.run.event_id, ended, _mismatch(one), one.run)

    def _keep(self, key: str, row: AppDBRow, rivals_before: AbstractSet[float]) -> None:
        self._rows.put(key, row)
        for freq_ghz in rivals_before - row.rivals.keys():
            self._rivals.drop(f"{key}|{freq_ghz!r}")
        for freq_ghz, rival in row.rivals.items():
            self._rivals.put(f"{key}|{freq_ghz!r}", _KeptRival(key, freq_ghz, rival))


def row_of(key: str, value: bytes) -> str:
    """Return the row that a record of the changelog belongs to."""
    table, _, rest = key.partition("|")
    match table:
        case "rival":
            return _RIVALS.decode(value).row
        case "waiting":
            return _WAITING.decode(value).row
        case _:
            return rest


def _published(
    topic: str, key: str, sequence: str, ended: Round, payload: Message, cause: MeasuredRun
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


def _updated(row: AppDBRow, newest: MeasuredRun) -> SignatureUpdated:
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

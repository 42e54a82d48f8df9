"""AppDB: what each application's runs were like, by node model and P-state."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple, Self

from coplace.v1.energy_pb2 import SignatureAt, SignatureUpdated
from coplace.v1.telemetry_pb2 import SignatureMeasured

from services.energy.processor.measured import require_few_pstates, signature_of
from shared.domain.signature import Signature
from shared.messaging.event import Event, Publish
from shared.messaging.stage import AlreadyAppliedError, Round

SOURCE: Final = "energy.appdb"
OUTPUT: Final = "energy.signatures"
# The least weight of a new run: applications change with their inputs and versions, so that after
# ten runs the mean forgets as fast as it learns.
FORGETTING: Final = 0.1
# Copies of a row's last runs are recognised. A copy that is older counts as one more run.
REMEMBERED_IDS: Final = 64


class Run(NamedTuple):
    """One measurement that waits for its round's end."""

    time_us: int
    event_id: str
    traceparent: str
    signature: Signature


@dataclass(slots=True)
class Row:
    """One application on one node model: mean signatures by P-state, and runs not yet in them."""

    means: dict[float, Signature] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)
    waiting: list[Run] = field(default_factory=list)

    def fold(self) -> Run:
        """Take the waiting runs in, in the order of (event time, id); the newest of them."""
        runs = sorted(self.waiting, key=lambda run: (run.time_us, run.event_id))
        for run in runs:
            self._take(run.signature)
        self.seen = [*self.seen, *(run.event_id for run in runs)][-REMEMBERED_IDS:]
        self.waiting = []
        return runs[-1]

    def knows(self, event_id: str) -> bool:
        """Whether the run of this event is in already."""
        return event_id in self.seen or any(run.event_id == event_id for run in self.waiting)

    def _take(self, new: Signature) -> None:
        if any(mean.tpi_scale != new.tpi_scale for mean in self.means.values()):
            self.means.clear()  # TPI in another unit cannot be compared: measure anew
        old = self.means.get(new.freq_ghz)
        self.means[new.freq_ghz] = new if old is None else _blended(old, new)

    def to_bytes(self) -> bytes:
        """The row as its changelog keeps it."""
        state = {
            "means": [asdict(mean) for mean in self.means.values()],
            "seen": self.seen,
            "waiting": [[*run[:3], asdict(run.signature)] for run in self.waiting],
        }
        return json.dumps(state, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, value: bytes) -> Self:
        """The row that a changelog kept."""
        state: dict[str, Any] = json.loads(value)
        means = [Signature(**mean) for mean in state["means"]]
        return cls(
            means={mean.freq_ghz: mean for mean in means},
            seen=state["seen"],
            waiting=[
                Run(time_us, event_id, traceparent, Signature(**signature))
                for time_us, event_id, traceparent, signature in state["waiting"]
            ],
        )


def _blended(old: Signature, new: Signature) -> Signature:
    """The mean with one more run: the plain mean at first, then with exponential forgetting."""
    weight = max(1 / (old.count + 1), FORGETTING)

    def mixed(metric: str) -> float:
        before: float = getattr(old, metric)
        after: float = getattr(new, metric)
        return before + weight * (after - before)

    return Signature(
        app_id=old.app_id,
        node_model=old.node_model,
        freq_ghz=old.freq_ghz,
        time_s=mixed("time_s"),
        power_w=mixed("power_w"),
        cpi=mixed("cpi"),
        tpi=mixed("tpi"),
        mem_gbps=mixed("mem_gbps"),
        tpi_scale=old.tpi_scale,
        count=old.count + 1,
    )


class AppDB:
    """Folds telemetry.signatures into energy.signatures, keyed by `{app_id}|{node_model}`."""

    def __init__(self, restored: Mapping[str, bytes]) -> None:
        self._rows = {key: Row.from_bytes(value) for key, value in restored.items()}
        self._waiting = {key for key, row in self._rows.items() if row.waiting}
        self._changed: set[str] = set()

    def handle(self, event: Event) -> Iterable[Publish]:
        """Remember a run until its round ends; kernels are no applications."""
        message = event.payload
        if not isinstance(message, SignatureMeasured) or message.kernel:
            return []
        run = Run(event.time_us, event.id, event.traceparent, signature_of(message))
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
        """Publish every row that a run of this round changed."""
        published = [self._updated(key, ended) for key in sorted(self._waiting)]
        self._changed |= self._waiting
        self._waiting = set()
        return published

    def changes(self) -> Mapping[str, bytes | None]:
        """The rows that changed."""
        changed, self._changed = self._changed, set()
        return {key: self._rows[key].to_bytes() for key in sorted(changed)}

    def _updated(self, key: str, ended: Round) -> Publish:
        row = self._rows[key]
        newest = row.fold()
        payload = SignatureUpdated(
            app_id=newest.signature.app_id,
            node_model=newest.signature.node_model,
            tpi_scale=newest.signature.tpi_scale,
            at=[_at(row.means[freq_ghz]) for freq_ghz in sorted(row.means)],
            updated_by=newest.event_id,
        )
        event = Event(
            id=f"{SOURCE}/{payload.DESCRIPTOR.full_name}/{key}/{ended.number}",
            source=SOURCE,
            time_us=ended.ended_at_us,
            key=key,
            payload=payload,
            traceparent=newest.traceparent,
        )
        return Publish(OUTPUT, event)


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

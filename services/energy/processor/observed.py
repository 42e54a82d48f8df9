"""What the learner remembers of kernels, applications and pairs of P-states."""

from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Self

from coplace.v1.telemetry_pb2 import SignatureMeasured

from services.energy.adaptive import Floats, PairEvidence
from services.energy.drift import Drift
from services.energy.model import KernelRun
from services.energy.processor.measured import signature_of
from shared.catalogue.event import Event

# As in the AppDB: the least weight of a new run in the mean at the reference P-state.
REFERENCE_WEIGHT: Final = 0.1
REMEMBERED_IDS: Final = 64


class PairedRun(NamedTuple):
    """A measurement that waits for its round's end."""

    time_us: int
    event_id: str
    node_model: str
    app_id: str
    is_kernel: bool
    freq_ghz: float
    tpi_scale: str
    metrics: KernelRun

    @classmethod
    def from_event(cls, event: Event, message: SignatureMeasured) -> Self:
        """Read the run in an event. Raises RejectedError when it is not a signature."""
        seen = signature_of(message)
        return cls(
            event.time_us,
            event.id,
            seen.node_model,
            seen.app_id,
            message.kernel,
            seen.freq_ghz,
            seen.tpi_scale,
            KernelRun(seen.time_s, seen.power_w, seen.cpi, seen.tpi),
        )

    @property
    def order(self) -> tuple[bool, int, str]:
        """Return the sort key: kernels first, since applications are compared with what a learning
        phase of their round says; then by (event time, id)."""
        return not self.is_kernel, self.time_us, self.event_id


class Measured(NamedTuple):
    """The newest run of a kernel at a P-state."""

    time_us: int
    event_id: str
    run: KernelRun


MeasuredKernel = dict[float, Measured]


@dataclass(frozen=True, slots=True)
class Reference:
    """An application's mean run at its highest P-state, and the events last seen of it."""

    freq_ghz: float
    tpi_scale: str
    mean: KernelRun
    count: int
    seen: tuple[str, ...]

    @classmethod
    def first(cls, run: PairedRun) -> Self:
        """Return what is observed of an application after its first run."""
        return cls(run.freq_ghz, run.tpi_scale, run.metrics, 1, (run.event_id,))

    def is_replaced_by(self, run: PairedRun) -> bool:
        """Return whether this run is at a higher P-state, or has TPI in another unit."""
        return run.freq_ghz > self.freq_ghz or run.tpi_scale != self.tpi_scale

    def and_run(self, run: PairedRun) -> "Reference":
        """Return the reference with one more run at this P-state."""
        weight = max(1 / (self.count + 1), REFERENCE_WEIGHT)
        mean = KernelRun(
            *(old + weight * (new - old) for old, new in zip(self.mean, run.metrics, strict=True))
        )
        return replace(self, mean=mean, count=self.count + 1)

    def and_id(self, event_id: str) -> "Reference":
        """Return the reference with one more event seen."""
        return replace(self, seen=(*self.seen, event_id)[-REMEMBERED_IDS:])


class PStatePair(NamedTuple):
    """Two P-states of a node model."""

    from_ghz: float
    to_ghz: float

    @property
    def key(self) -> str:
        """Return the name of the pair in the changelog."""
        return f"{self.from_ghz!r}>{self.to_ghz!r}"


@dataclass(frozen=True, slots=True, eq=False)
class PairLesson:
    """What applications taught of a pair since the learning phase, and the coefficients that were
    published for it, None while they are those learned."""

    pair: PStatePair
    evidence: PairEvidence
    published: Floats | None = None


@dataclass(frozen=True, slots=True)
class Head:
    """A node model's declared P-states, the unit of its kernels' TPI, whether there is something
    new to learn from, and how runs since the learning phase compare; `compared` counts those since
    coefficients were last published. `source` is the SHA-256, in hexadecimal, of what takes the
    place of learning: empty where nothing does."""

    pstates_ghz: tuple[float, ...] = ()
    tpi_scale: str = ""
    is_stale: bool = False
    compared: int = 0
    drift: Drift = field(default_factory=Drift)
    source: str = ""

"""Learns the coefficients of each node model when its kernels were measured."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self

from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.energy_pb2 import CoefficientsPublished
from coplace.v1.telemetry_pb2 import SignatureMeasured

from services.energy.model import Fit, KernelRun, fit
from services.energy.processor.measured import require_few_pstates, signature_of
from shared.domain.checks import require_positive
from shared.messaging.digest import model_sha256
from shared.messaging.event import Event, Publish
from shared.messaging.stage import AlreadyAppliedError, Round

SOURCE: Final = "energy.learner"
OUTPUT: Final = "energy.coefficients"


class Measured(NamedTuple):
    """The newest run of a kernel at a P-state."""

    time_us: int
    event_id: str
    run: KernelRun


@dataclass(slots=True)
class NodeModel:
    """What is known of a node model; `is_stale` says that its coefficients are to be published."""

    pstates_ghz: list[float] = field(default_factory=list)
    tpi_scale: str = ""
    is_stale: bool = False
    kernels: dict[str, dict[float, Measured]] = field(default_factory=dict)

    def knows(self, kernel: str, freq_ghz: float, measured: Measured) -> bool:
        """Whether this run, or a newer one, is in already."""
        newest = self.kernels.get(kernel, {}).get(freq_ghz)
        return newest is not None and newest[:2] >= measured[:2]

    def require_room(self, pstates_ghz: Iterable[float]) -> None:
        """Raise RejectedError when these would be more P-states than coefficients can be for."""
        measured = {freq for runs in self.kernels.values() for freq in runs}
        require_few_pstates({*measured, *self.pstates_ghz, *pstates_ghz})

    def measure(self, kernel: str, freq_ghz: float, tpi_scale: str, measured: Measured) -> None:
        """Keep a run; those with TPI in another unit cannot be compared with it and go."""
        if self.tpi_scale != tpi_scale:
            self.kernels.clear()
        self.kernels.setdefault(kernel, {})[freq_ghz] = measured
        self.tpi_scale = tpi_scale
        self.is_stale = True

    def fit(self) -> Fit:
        """The coefficients between all P-states that are declared or measured."""
        measured = {freq for runs in self.kernels.values() for freq in runs}
        runs = {
            kernel: {freq_ghz: one.run for freq_ghz, one in by_freq.items()}
            for kernel, by_freq in self.kernels.items()
        }
        return fit(sorted(measured | set(self.pstates_ghz)), runs)

    def to_bytes(self) -> bytes:
        """The node model as its changelog keeps it."""
        state = {
            "pstates_ghz": self.pstates_ghz,
            "tpi_scale": self.tpi_scale,
            "is_stale": self.is_stale,
            "kernels": {
                kernel: [[freq_ghz, *one] for freq_ghz, one in runs.items()]
                for kernel, runs in self.kernels.items()
            },
        }
        return json.dumps(state, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, value: bytes) -> Self:
        """The node model that a changelog kept."""
        state: dict[str, Any] = json.loads(value)
        kernels = {
            kernel: {
                freq_ghz: Measured(time_us, event_id, KernelRun(*run))
                for freq_ghz, time_us, event_id, run in runs
            }
            for kernel, runs in state.pop("kernels").items()
        }
        return cls(kernels=kernels, **state)


@dataclass(frozen=True, slots=True, eq=False)
class Imported:
    """Coefficients of another source, in place of learning them."""

    tpi_scale: str
    fit: Fit


class Learner:
    """Folds kernels and declared clusters into energy.coefficients; a single stage.

    A node model among `imported` gets those coefficients when a cluster of it is declared, and
    learns nothing.
    """

    def __init__(
        self, restored: Mapping[str, bytes], imported: Mapping[str, Imported] | None = None
    ) -> None:
        self._models = {name: NodeModel.from_bytes(value) for name, value in restored.items()}
        self._imported = imported or {}
        self._changed: set[str] = set()

    def handle(self, event: Event) -> Iterable[Publish]:
        """Remember a kernel's run or the P-states of a node model. Raises RejectedError."""
        message = event.payload
        if isinstance(message, ClusterDeclared):
            self._declare(message.node_model, sorted(message.pstates_ghz))
        elif isinstance(message, SignatureMeasured) and message.kernel:
            self._measure(event, message)
        return []

    def end_round(self, ended: Round) -> Iterable[Publish]:
        """Publish the coefficients of every node model that something new is known of."""
        stale = [name for name, model in sorted(self._models.items()) if model.is_stale]
        return [self._published(name, ended) for name in stale]

    def changes(self) -> Mapping[str, bytes | None]:
        """The node models that changed."""
        changed, self._changed = self._changed, set()
        return {name: self._models[name].to_bytes() for name in sorted(changed)}

    def _declare(self, name: str, pstates_ghz: list[float]) -> None:
        for freq_ghz in pstates_ghz:
            require_positive("pstates_ghz", freq_ghz)
        model = self._models.get(name, NodeModel())
        model.require_room(pstates_ghz)
        self._models[name] = model
        merged = sorted({*model.pstates_ghz, *pstates_ghz})
        if merged != model.pstates_ghz:
            model.pstates_ghz = merged
            model.is_stale = model.is_stale or bool(model.kernels) or name in self._imported
            self._changed.add(name)

    def _measure(self, event: Event, message: SignatureMeasured) -> None:
        seen = signature_of(message)
        if seen.node_model in self._imported:
            return
        run = KernelRun(seen.time_s, seen.power_w, seen.cpi, seen.tpi)
        measured = Measured(event.time_us, event.id, run)
        model = self._models.get(seen.node_model, NodeModel())
        if model.knows(seen.app_id, seen.freq_ghz, measured):
            raise AlreadyAppliedError(event.id)
        model.require_room([seen.freq_ghz])
        self._models[seen.node_model] = model
        model.measure(seen.app_id, seen.freq_ghz, seen.tpi_scale, measured)
        self._changed.add(seen.node_model)

    def _published(self, name: str, ended: Round) -> Publish:
        model = self._models[name]
        model.is_stale = False
        self._changed.add(name)
        source = self._imported.get(name) or Imported(model.tpi_scale, model.fit())
        payload = _message(name, ended, source)
        event = Event(
            id=f"{SOURCE}/{payload.DESCRIPTOR.full_name}/{name}/{ended.number}",
            source=SOURCE,
            time_us=ended.ended_at_us,
            key=name,
            payload=payload,
        )
        return Publish(OUTPUT, event)


def _message(node_model: str, ended: Round, source: Imported) -> CoefficientsPublished:
    fitted = source.fit
    columns = [fitted.power[..., k] for k in range(3)] + [fitted.cpi[..., k] for k in range(3)]
    a, b, c, d, e, f = (column.ravel().tolist() for column in columns)
    message = CoefficientsPublished(
        node_model=node_model,
        version=f"coefficients-{node_model}@{ended.number}",
        tpi_scale=source.tpi_scale,
        pstates_ghz=fitted.pstates_ghz,
        a=a,
        b=b,
        c=c,
        d=d,
        e=e,
        f=f,
        available=fitted.available.ravel().tolist(),
        power_residual=fitted.power_residual,
        time_residual=fitted.time_residual,
        kernels=fitted.kernels,
    )
    if fitted.uncertainty is not None:
        message.power_sd.extend(fitted.uncertainty.power_sd.ravel().tolist())
        message.time_sd.extend(fitted.uncertainty.time_sd.ravel().tolist())
    message.sha256 = model_sha256(message)
    return message

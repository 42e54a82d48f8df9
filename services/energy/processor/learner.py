"""Learns the coefficients of each node model from its kernels, and adapts them to what runs."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from math import isnan, sqrt
from typing import Final

from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.energy_pb2 import CoefficientsPublished
from coplace.v1.energy_pb2 import Drift as DriftMessage
from coplace.v1.telemetry_pb2 import SignatureMeasured

from services.energy.drift import Drift
from services.energy.model import Fit
from services.energy.processor.node_model import LearnedNodeModel
from services.energy.processor.observed import Head, PairedRun
from shared.domain.bounds import CLOCK_GHZ
from shared.messaging.digest import model_sha256
from shared.messaging.event import Event, Publish
from shared.messaging.stage import AlreadyAppliedError, Round
from shared.messaging.table import Table

SOURCE: Final = "energy.learner"
OUTPUT: Final = "energy.coefficients"


@dataclass(frozen=True, slots=True, eq=False)
class Imported:
    """Coefficients of another source, in place of learning them."""

    tpi_scale: str
    fit: Fit


class Learner:
    """Folds kernels, applications and declared clusters into energy.coefficients; a single stage.

    A node model among `imported` gets those coefficients when a cluster of it is declared, and
    learns nothing. Others adapt: after `adapt_after` comparisons of applications with their
    projections a new version is published, 0 being never.
    """

    def __init__(
        self,
        restored: Mapping[str, bytes],
        imported: Mapping[str, Imported] | None = None,
        adapt_after: int = 0,
    ) -> None:
        self._imported = imported or {}
        self._adapt_after = adapt_after
        self._heads = Table("model", restored, asdict, Head.decoded)
        self._waiting = Table("waiting", restored, PairedRun.encoded, PairedRun.decoded)
        self._models = {
            name: self._create(name, head, restored) for name, head in self._heads.items()
        }
        for run in self._waiting.values():
            self._models[run.node_model].expect([run.freq_ghz])

    @property
    def drifts(self) -> Mapping[str, Drift]:
        """How good the coefficients of each node model turn out to be."""
        return {name: model.head.drift for name, model in self._models.items()}

    def handle(self, event: Event) -> Iterable[Publish]:
        """Remember a run until its round ends, or the P-states of a node model. Raises
        RejectedError and AlreadyAppliedError."""
        message = event.payload
        if isinstance(message, ClusterDeclared):
            self._declare(message.node_model, sorted(message.pstates_ghz))
        elif isinstance(message, SignatureMeasured):
            self._wait(PairedRun.of(event, message))
        return []

    def end_round(self, ended: Round) -> Iterable[Publish]:
        """Take the round's runs in, and publish what changed by them."""
        for run in sorted(self._waiting.values(), key=lambda run: run.order):
            model = self._models[run.node_model]
            if run.is_kernel:
                model.measure(run)
            else:
                model.compare(run)
            self._waiting.drop(run.event_id)
        return [
            self._published(name, ended)
            for name, model in sorted(self._models.items())
            if self._is_due(model)
        ]

    def changes(self) -> Mapping[str, bytes | None]:
        """Node models and waiting runs that changed."""
        changed: dict[str, bytes | None] = {}
        for name, model in self._models.items():
            if model.head != self._heads.get(name):
                self._heads.put(name, model.head)
            changed |= model.changes()
        return changed | self._heads.changes() | self._waiting.changes()

    def _create(self, name: str, head: Head, restored: Mapping[str, bytes]) -> LearnedNodeModel:
        source = self._imported.get(name)
        return LearnedNodeModel(name, head, restored, source.fit if source else None)

    def _model(self, name: str) -> LearnedNodeModel:
        """A node model; one that nothing is known of yet is not remembered by asking."""
        source = self._imported.get(name)
        head = Head(tpi_scale=source.tpi_scale if source else "")
        return self._models.get(name) or self._create(name, head, {})

    def _declare(self, name: str, pstates_ghz: list[float]) -> None:
        for freq_ghz in pstates_ghz:
            CLOCK_GHZ.require("pstates_ghz", freq_ghz)
        model = self._model(name)
        model.expect(pstates_ghz)
        self._models[name] = model
        merged = tuple(sorted({*model.head.pstates_ghz, *pstates_ghz}))
        if merged != model.head.pstates_ghz:
            model.declare(merged)

    def _wait(self, run: PairedRun) -> None:
        if run.is_kernel and run.node_model in self._imported:
            return
        model = self._model(run.node_model)
        if run.event_id in self._waiting or model.knows(run):
            raise AlreadyAppliedError(run.event_id)
        if run.is_kernel:
            model.expect([run.freq_ghz])
        self._models[run.node_model] = model
        self._waiting.put(run.event_id, run)

    def _is_due(self, model: LearnedNodeModel) -> bool:
        if model.head.is_stale:
            return True
        return 0 < self._adapt_after <= model.head.compared and model.has_kernels

    def _published(self, name: str, ended: Round) -> Publish:
        model = self._models[name]
        model.adapt()
        model.publish()
        payload = _message(name, ended, model)
        event = Event(
            id=f"{SOURCE}/{payload.DESCRIPTOR.full_name}/{name}/{ended.number}",
            source=SOURCE,
            time_us=ended.ended_at_us,
            key=name,
            payload=payload,
        )
        return Publish(OUTPUT, event)


def _message(node_model: str, ended: Round, model: LearnedNodeModel) -> CoefficientsPublished:
    fitted = model.current()
    columns = [fitted.power[..., k] for k in range(3)] + [fitted.cpi[..., k] for k in range(3)]
    a, b, c, d, e, f = (column.ravel().tolist() for column in columns)
    message = CoefficientsPublished(
        node_model=node_model,
        version=f"coefficients-{node_model}@{ended.number}",
        tpi_scale=model.head.tpi_scale,
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
        drift=_drift(model.head.drift),
    )
    if fitted.uncertainty is not None:
        message.power_sd.extend(fitted.uncertainty.power_sd.ravel().tolist())
        message.time_sd.extend(fitted.uncertainty.time_sd.ravel().tolist())
    message.sha256 = model_sha256(message)
    return message


def _drift(drift: Drift) -> DriftMessage | None:
    if drift.runs == 0 or isnan(drift.ratio):
        return None
    return DriftMessage(
        runs=drift.runs,
        power_error=sqrt(drift.power_square),
        time_error=sqrt(drift.time_square),
        power_bias=drift.power_bias,
        time_bias=drift.time_bias,
        ratio=drift.ratio,
        needs_learning=drift.needs_learning,
    )

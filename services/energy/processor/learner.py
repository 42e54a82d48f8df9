"""Learns the coefficients of each node model from its kernels, and adapts them to what runs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from math import isnan, sqrt
from typing import Final, Self

import numpy as np
from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.energy_pb2 import CoefficientsDeclared, CoefficientsPublished
from coplace.v1.energy_pb2 import Drift as DriftMessage
from coplace.v1.telemetry_pb2 import SignatureMeasured

from coplace_client.bounds import CLOCK_GHZ
from coplace_client.clock import TOLERANCE_US
from services.energy.drift import Drift
from services.energy.model import Fit
from services.energy.processor.node_model import LearnedNodeModel, NodeModelTables
from services.energy.processor.observed import Head, PairedRun
from shared.catalogue.codec import format_time
from shared.catalogue.digest import model_sha256
from shared.catalogue.event import Event, Publish
from shared.catalogue.payloads.coefficients import declared_coefficients_of
from shared.catalogue.schemas import names_of
from shared.domain.coefficients import Coefficients
from shared.streams.stages.stage import AlreadyAppliedError, OvertakenError, Round
from shared.streams.state.state import State

SOURCE: Final = "energy.learner"
CONSUMES: Final = names_of(ClusterDeclared, CoefficientsDeclared, SignatureMeasured)
OUTPUT: Final = "energy.coefficients"


@dataclass(frozen=True, eq=False)
class Imported:
    """Coefficients of another source, in place of learning them."""

    tpi_scale: str
    fit: Fit

    @classmethod
    def from_coefficients(cls, c: Coefficients) -> Self:
        """Return the coefficients of a file or of a declaration, whose fit is not known here."""
        power, cpi = np.stack([c.a, c.b, c.c], axis=-1), np.stack([c.d, c.e, c.f], axis=-1)
        fitted = Fit(c.pstates_ghz, power, cpi, c.available, 0.0, 0.0, kernels=0)
        return cls(c.tpi_scale, fitted)

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256 of their content."""
        arrays = (np.array(self.fit.pstates_ghz), self.fit.power, self.fit.cpi, self.fit.available)
        found = sha256(self.tpi_scale.encode())
        for array in arrays:
            found.update(np.ascontiguousarray(array).tobytes())
        return found.hexdigest()


class Learner:
    """Folds kernels, applications and declared clusters into energy.coefficients; a single stage.

    A node model among `imported`, or whose coefficients an operator declared, gets those when a
    cluster of it is declared, and learns nothing; where they are others than in an earlier life,
    they are published at the end of the next round. What was declared goes before what is
    imported. Others adapt: after `adapt_after` comparisons of applications with their
    projections a new version is published, 0 being never.
    """

    def __init__(
        self,
        restored: Mapping[str, bytes],
        imported: Mapping[str, Imported] | None = None,
        adapt_after: int = 0,
    ) -> None:
        self._state = State(restored)
        self._declared = self._state.table("declared", CoefficientsDeclared)
        self._waiting = self._state.table("waiting", PairedRun)
        self._tables = NodeModelTables(self._state)
        self._state.require_all_read()
        declared = {name: _imported(message) for name, message in self._declared.items()}
        self._imported = {**(imported or {}), **declared}
        self._adapt_after = adapt_after
        self._models = {name: self._create(name) for name, _ in self._tables.heads.items()}
        for run in self._waiting.values():
            self._models[run.node_model].expect([run.freq_ghz])
        for name in self._imported.keys() & self._models.keys():
            self._use(name)

    @property
    def drifts(self) -> Mapping[str, Drift]:
        """Return how good the coefficients of each node model turn out to be."""
        return {name: model.head.drift for name, model in self._models.items()}

    def handle(self, event: Event) -> Iterable[Publish]:
        """Remember a run until its round ends, or the P-states of a node model. Raises
        RejectedError and AlreadyAppliedError."""
        message = event.payload
        if isinstance(message, ClusterDeclared):
            self._declare(message.node_model, sorted(message.pstates_ghz))
        elif isinstance(message, CoefficientsDeclared):
            self._import(event, message)
        elif isinstance(message, SignatureMeasured):
            self._wait(PairedRun.from_event(event, message))
        return []

    def end_round(self, ended: Round) -> Iterable[Publish]:
        """Take the round's runs in, and publish what changed by them."""
        for name, declared in list(self._declared.items()):
            # From a clock ahead: what comes in a later round is newer.
            if declared.declared_at_us > ended.ended_at_us + TOLERANCE_US:
                declared.declared_at_us = ended.ended_at_us
                self._declared.put(name, declared)
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
        """Return node models and waiting runs that changed."""
        return self._state.changes()

    def _create(self, name: str) -> LearnedNodeModel:
        source = self._imported.get(name)
        new = Head(tpi_scale=source.tpi_scale, source=source.digest) if source else Head()
        return LearnedNodeModel(name, self._tables, new, source.fit if source else None)

    def _import(self, event: Event, message: CoefficientsDeclared) -> None:
        known, name = self._declared.get(message.node_model), message.node_model
        if known == message:
            raise AlreadyAppliedError(event.id)
        if known is not None and message.declared_at_us <= known.declared_at_us:
            newer = f"those declared at {format_time(known.declared_at_us)} are newer"
            raise OvertakenError(f"{newer}: declare yours again to replace them")
        imported, model = _imported(message), self._model(name)
        model.expect(imported.fit.pstates_ghz)
        self._declared.put(name, message)
        self._imported[name] = imported
        self._remember(name, model)
        self._use(name)

    def _use(self, name: str) -> None:
        """Take what is imported of a node model, unless it is what is used already."""
        model, source = self._models[name], self._imported[name]
        if model.head.source != source.digest:
            model.use(source.fit, source.tpi_scale, source.digest)

    def _model(self, name: str) -> LearnedNodeModel:
        """A node model; one that nothing is known of yet is not remembered by asking."""
        return self._models.get(name) or self._create(name)

    def _remember(self, name: str, model: LearnedNodeModel) -> None:
        if name not in self._models:
            self._models[name] = model
            self._tables.heads.put(name, model.head)

    def _declare(self, name: str, pstates_ghz: list[float]) -> None:
        for freq_ghz in pstates_ghz:
            CLOCK_GHZ.require("pstates_ghz", freq_ghz)
        model = self._model(name)
        model.expect(pstates_ghz)
        self._remember(name, model)
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
        self._remember(run.node_model, model)
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


def _imported(message: CoefficientsDeclared) -> Imported:
    return Imported.from_coefficients(declared_coefficients_of(message))


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

"""A node model: its kernels, and what applications did at two of its P-states."""

from collections.abc import Iterable
from dataclasses import replace
from math import nan
from typing import Final

import numpy as np
import orjson

from services.energy.adaptive import Floats, PairEvidence, adapt, gram_of, regressors
from services.energy.drift import Deviations, Errors
from services.energy.model import Fit, KernelRun, fit
from services.energy.processor.measured import require_few_pstates
from services.energy.processor.observed import (
    Head,
    Measured,
    MeasuredKernel,
    PairedRun,
    PairLesson,
    PStatePair,
    Reference,
)
from shared.streams.state.state import State, TablePart

# What is off by more is another application under the same name, or a node for a learning phase:
# it counts as drift, but coefficients do not chase it.
MOST_ERROR: Final = 0.5


class NodeModelTables:
    """What is remembered of all node models. Each kernel, application and pair is a row of its own,
    so that none grows with their number."""

    def __init__(self, state: State) -> None:
        self.heads = state.table("model", Head)
        self.kernels = state.table("kernel", MeasuredKernel)
        self.references = state.table("reference", Reference)
        self.taught = state.table("pair", PairLesson)


class LearnedNodeModel:
    """Coefficients of a node model: learned from kernels, adapted by applications.

    `imported` takes the place of learning and is never adapted. `new` is the head of one of which
    nothing is known yet.
    """

    def __init__(self, name: str, tables: NodeModelTables, new: Head, imported: Fit | None) -> None:
        beginning = f"{orjson.dumps(name).decode()}|"  # no name is the beginning of another
        self._name = name
        self._heads = tables.heads
        self._head = tables.heads.get(name) or new
        self._imported = imported
        self._kernels = TablePart(tables.kernels, beginning)
        self._references = TablePart(tables.references, beginning)
        self._taught = TablePart(tables.taught, beginning)
        self._seen_ghz = self.table_ghz
        self._learned: Fit | None = None

    @property
    def head(self) -> Head:
        """Return what is known of all of it."""
        return self._head

    @head.setter
    def head(self, head: Head) -> None:
        self._head = head
        self._heads.put(self._name, head)

    @property
    def table_ghz(self) -> set[float]:
        """Return the P-states that are declared or measured."""
        measured = {freq_ghz for kernel in self._kernels.values() for freq_ghz in kernel}
        return measured | set(self.head.pstates_ghz)

    @property
    def has_kernels(self) -> bool:
        """Return whether anything can be learned."""
        return bool(self._kernels)

    @property
    def learned(self) -> Fit:
        """Return the coefficients of the last learning phase."""
        if self._imported is not None:
            return self._imported
        if self._learned is None:
            runs = {
                name: {freq_ghz: one.run for freq_ghz, one in kernel.items()}
                for name, kernel in self._kernels.items()
            }
            self._learned = fit(sorted(self.table_ghz), runs)
        return self._learned

    def use(self, imported: Fit, tpi_scale: str, source: str) -> None:
        """Use coefficients of another source in place of learning."""
        self._imported = imported
        self.head = replace(
            self.head,
            tpi_scale=tpi_scale,
            is_stale=True,
            compared=0,
            drift=self.head.drift.restarted(),
            source=source,
        )
        self._taught.clear()

    def current(self) -> Fit:
        """Return the coefficients as they are published."""
        power, cpi = self.learned.power.copy(), self.learned.cpi.copy()
        for taught in self._taught.values():
            if taught.published is not None:
                power[self._at(taught.pair)], cpi[self._at(taught.pair)] = taught.published
        return replace(self.learned, power=power, cpi=cpi)

    def knows(self, run: PairedRun) -> bool:
        """Return whether this run, or a newer one of the kernel, is in already."""
        if run.is_kernel:
            newest = (self._kernels.get(run.app_id) or {}).get(run.freq_ghz)
            return newest is not None and newest[:2] >= run[:2]
        reference = self._references.get(run.app_id)
        return reference is not None and run.event_id in reference.seen

    def expect(self, pstates_ghz: Iterable[float]) -> None:
        """Raise RejectedError when these would be more P-states than coefficients can be for."""
        seen_ghz = {*self._seen_ghz, *pstates_ghz}
        require_few_pstates(seen_ghz)
        self._seen_ghz = seen_ghz

    def declare(self, pstates_ghz: tuple[float, ...]) -> None:
        """Declare the P-states, whether measured or not."""
        is_stale = self.head.is_stale or self.has_kernels or self._imported is not None
        self.head = replace(self.head, pstates_ghz=pstates_ghz, is_stale=is_stale)
        self._learned = None

    def measure(self, run: PairedRun) -> None:
        """Keep a kernel's run; those with TPI in another unit cannot be compared with it and go.

        What applications taught until then was about coefficients that are no more.
        """
        if self.head.tpi_scale != run.tpi_scale:
            self._kernels.clear()
        measured = Measured(run.time_us, run.event_id, run.metrics)
        kernel = self._kernels.get(run.app_id) or {}
        self._kernels.put(run.app_id, {**kernel, run.freq_ghz: measured})
        self.head = replace(
            self.head,
            tpi_scale=run.tpi_scale,
            is_stale=True,
            compared=0,
            drift=self.head.drift.restarted(),
        )
        self._taught.clear()
        self._learned = None

    def compare(self, run: PairedRun) -> None:
        """Take an application's run in: as its reference, or else to compare it with what is
        projected from that and to learn from it."""
        known = self._references.get(run.app_id)
        if run.freq_ghz not in self.learned.pstates_ghz:
            return
        if known is None or known.is_replaced_by(run):
            self._references.put(run.app_id, Reference.first(run))
        elif run.freq_ghz == known.freq_ghz:
            self._references.put(run.app_id, known.and_run(run).and_id(run.event_id))
        else:
            self._references.put(run.app_id, known.and_id(run.event_id))
            if run.tpi_scale == self.head.tpi_scale:
                self._compare(PStatePair(known.freq_ghz, run.freq_ghz), known.mean, run.metrics)

    def _compare(self, pair: PStatePair, before: KernelRun, measured: KernelRun) -> None:
        learned = self._coefficients(pair)
        if learned is None:
            return
        taught = self._taught.get(pair.key) or PairLesson(pair, PairEvidence.none())
        published = learned if taught.published is None else taught.published
        predicted = _projected(published, pair, before)
        if min(predicted.power_w, predicted.time_s) <= 0:
            return
        drift = self.head.drift.and_run(predicted, measured, self._deviations(pair))
        self.head = replace(self.head, drift=drift, compared=self.head.compared + 1)
        errors = Errors.between(predicted, measured)
        if self._imported is None and max(map(abs, errors)) <= MOST_ERROR:
            evidence = taught.evidence.and_run(learned, before, measured)
            self._taught.put(pair.key, replace(taught, evidence=evidence))

    def adapt(self) -> None:
        """Take what applications taught into the coefficients that are published."""
        known = ((taught, self._coefficients(taught.pair)) for taught in self._taught.values())
        pairs = [(taught, learned) for taught, learned in known if learned is not None]
        if not pairs:
            return
        published = adapt(
            np.stack([learned for _, learned in pairs]),
            np.stack([self._kernels_of(taught.pair) for taught, _ in pairs]),
            PairEvidence.stack([taught.evidence for taught, _ in pairs]),
        )
        for (taught, _), coefficients in zip(pairs, published, strict=True):
            self._taught.put(taught.pair.key, replace(taught, published=coefficients))

    def publish(self) -> None:
        """Mark what is known now as published."""
        self.head = replace(self.head, is_stale=False, compared=0)

    def _at(self, pair: PStatePair) -> tuple[int, int]:
        clocks_ghz = self.learned.pstates_ghz
        return clocks_ghz.index(pair.from_ghz), clocks_ghz.index(pair.to_ghz)

    def _coefficients(self, pair: PStatePair) -> Floats | None:
        """As learned, shape (2, 3); None where the pair is not available."""
        if not {*pair} <= {*self.learned.pstates_ghz}:
            return None
        at = self._at(pair)
        if not self.learned.available[at]:
            return None
        return np.stack([self.learned.power[at], self.learned.cpi[at]])

    def _deviations(self, pair: PStatePair) -> Deviations:
        known = self.learned.uncertainty
        if known is None:
            return Deviations(nan, nan)
        at = self._at(pair)
        return Deviations(float(known.power_sd[at]), float(known.time_sd[at]))

    def _kernels_of(self, pair: PStatePair) -> Floats:
        return gram_of(
            kernel[pair.from_ghz].run for kernel in self._kernels.values() if {*pair} <= {*kernel}
        )


def _projected(coefficients: Floats, pair: PStatePair, before: KernelRun) -> KernelRun:
    """Equations 1 to 3 for one run."""
    power_w, cpi = (coefficients * regressors(before)).sum(axis=1).tolist()
    time_s = before.time_s * cpi / before.cpi * pair.from_ghz / pair.to_ghz
    return KernelRun(time_s, power_w, cpi, before.tpi)

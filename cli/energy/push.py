"""`coplace energy push`: coefficients and signatures of files as events, and what they change."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.energy_pb2 import CoefficientsDeclared, CoefficientsPublished, SignatureUpdated
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.telemetry_pb2 import SignatureMeasured

from cli.output import Row
from coplace_client.errors import RejectedError, UnusableError
from coplace_client.facts import fact
from coplace_client.signature import Signature
from services.energy.adapters.coefficients_csv import read_coefficients_file
from services.energy.adapters.signatures_csv import SignatureRow, nearest_pstate, read_signatures
from services.energy.processor.measured import measured_of
from services.energy.processor.profile import METRICS, SignatureProfile
from shared.catalogue.contents.check import check_contents
from shared.catalogue.event import Event, ReadTopic
from shared.catalogue.payloads.coefficients import coefficients_of, declared_coefficients_of
from shared.catalogue.payloads.domain_types import signatures_of
from shared.domain.coefficients import Coefficients
from shared.domain.eamc_source import NODE_MODEL_OF_MODULE
from shared.eamc.frequency import FrequencyRule, choose_pstates
from shared.eamc.reference import reference_signature
from shared.models.ear import project
from shared.models.own_history import with_history

COLUMNS: Final = ("application", "node model", "GHz", "time", "power")
NO_SIGNATURE: Final = "no signature"
NO_COEFFICIENTS: Final = "no coefficients"

_RowOf = tuple[str, str]
Signatures = Mapping[_RowOf, Sequence[Signature]]


class Estimate(NamedTuple):
    """How a node is expected to run an application at the P-state of least distance."""

    freq_ghz: float
    time_s: float
    power_w: float


@dataclass(frozen=True, slots=True)
class EnergyModels:
    """What projections start from: coefficients by node model, signatures by application and node
    model, and the P-states of clusters by node model."""

    coefficients: Mapping[str, Coefficients]
    signatures: Signatures
    pstates_ghz: Mapping[str, frozenset[float]] = field(default_factory=dict)

    @classmethod
    def read(cls, topic: ReadTopic) -> "EnergyModels":
        """Read what a running system has published last."""
        tables = {
            message.node_model: coefficients_of(message)
            for message in _newest(topic("energy.coefficients"))
            if isinstance(message, CoefficientsPublished)
        }
        rows = {
            (message.app_id, message.node_model): signatures_of(message)
            for message in _newest(topic("energy.signatures"))
            if isinstance(message, SignatureUpdated)
        }
        clusters: dict[str, frozenset[float]] = {}
        for message in _newest(topic("commands")):
            if isinstance(message, ClusterDeclared):
                before = clusters.get(message.node_model, frozenset())
                clusters[message.node_model] = before | {*message.pstates_ghz}
        return cls(tables, rows, clusters)

    def estimate(self, app_id: str, node_model: str) -> Estimate | str:
        """Estimate how an application runs, or return why nobody knows."""
        table, known = self.coefficients.get(node_model), self.signatures.get((app_id, node_model))
        if not known:
            return NO_SIGNATURE
        if table is None:
            return NO_COEFFICIENTS
        if known[0].tpi_scale != table.tpi_scale:
            return f"TPI in {known[0].tpi_scale}, not in {table.tpi_scale}"
        reference = reference_signature(known, table)
        if reference is None:
            return f"no coefficients at {known[-1].freq_ghz:g} GHz"
        found = with_history(project(table, [reference]), [reference], [known])
        [best] = choose_pstates(found, FrequencyRule.MIN_DISTANCE).tolist()
        time_s, power_w = found.time_s[0, best], found.power_w[0, best]
        return Estimate(table.pstates_ghz[best], float(time_s), float(power_w))


@dataclass(frozen=True, slots=True)
class Files:
    """What files hold: coefficients, and runs of applications."""

    coefficients: Sequence[Coefficients]
    signatures: Sequence[Signature]

    @classmethod
    def read(cls, paths: Iterable[Path], node_model: str, known: EnergyModels) -> "Files":
        """Read files of coefficients, and of signatures: the header says which a file is. A
        signature without a P-state is of the highest one of its node model.

        Raises OSError, and RejectedError for what is neither, and for values that cannot be.
        """
        tables, rows = [], []
        for path in paths:
            if "from_ghz" in _header(path):
                table = read_coefficients_file(path, node_model)
                name = NODE_MODEL_OF_MODULE.get(table.node_model, table.node_model)
                tables.append(replace(table, node_model=name))
            else:
                rows += read_signatures(path)
        pstates = {name: tuple(sorted(ghz)) for name, ghz in known.pstates_ghz.items()}
        pstates |= {each.node_model: each.pstates_ghz for each in tables}
        return cls(tables, [_signature(row, node_model, pstates) for row in rows])

    def envelopes(self, source: str, reason: str, now_us: int) -> Iterator[Envelope]:
        """Yield the events that publish the files. Raises RejectedError for what ingest would
        refuse."""
        for table in self.coefficients:
            declared = _declaration(table, reason, now_us)
            check_contents(declared)
            declared_coefficients_of(declared)
            yield fact(source, declared, f"{table.node_model}/{now_us}", now_us)
        for number, each in enumerate(self.signatures):
            measured: SignatureMeasured = measured_of(each, "")
            check_contents(measured)
            row = f"{each.app_id}/{each.node_model}/{each.freq_ghz:g}"
            yield fact(source, measured, f"{row}/{now_us + number}", now_us)

    def taken_into(self, known: EnergyModels) -> EnergyModels:
        """Return the models after the files: declared coefficients replace others, a run counts as
        one more."""
        signatures = dict(known.signatures)
        for each in self.signatures:
            key = each.app_id, each.node_model
            signatures[key] = _with_run(signatures.get(key, ()), each)
        tables = {each.node_model: each for each in self.coefficients}
        return replace(known, coefficients={**known.coefficients, **tables}, signatures=signatures)

    def doubts(self, known: EnergyModels) -> Iterator[str]:
        """Yield what a reader should know before they are published."""
        of_runs = {each.node_model for each in self.signatures}
        for name in sorted({each.node_model for each in self.coefficients} | of_runs):
            if name not in known.pstates_ghz:
                there = ", ".join(sorted(known.pstates_ghz)) or "none"
                yield f"no cluster of node model {name} is declared: there are {there}"
        for table in self.coefficients:
            lacking = known.pstates_ghz.get(table.node_model, frozenset()) - {*table.pstates_ghz}
            if lacking:
                clocks = ", ".join(f"{ghz:g}" for ghz in sorted(lacking))
                yield f"{table.node_model}: clusters have {clocks} GHz, the coefficients do not"
            before = known.coefficients.get(table.node_model)
            if before is not None:
                yield f"{table.node_model}: they replace {before.version}, nothing adapts them"


def changes(before: EnergyModels, files: Files) -> list[Row]:
    """Return how applications are expected to run before and after the files, for those they
    concern."""
    after = files.taken_into(before)
    models = {each.node_model for each in files.coefficients}
    named = {(each.app_id, each.node_model) for each in files.signatures}
    rows = [key for key in sorted(after.signatures) if key[1] in models or key in named]
    return [_change(key, before.estimate(*key), after.estimate(*key)) for key in rows]


def _change(key: _RowOf, before: Estimate | str, after: Estimate | str) -> Row:
    app_id, node_model = key
    row = {"application": app_id, "node model": node_model}
    if isinstance(after, str):
        return {**row, "GHz": after, "time": None, "power": None}
    if isinstance(before, str):
        time, power = f"{after.time_s:.4g} s", f"{after.power_w:.4g} W"
        return {**row, "GHz": f"{before}, then {after.freq_ghz:g}", "time": time, "power": power}
    return {
        **row,
        "GHz": f"{before.freq_ghz:g}, then {after.freq_ghz:g}",
        "time": f"{100 * (after.time_s / before.time_s - 1):+.1f} %",
        "power": f"{100 * (after.power_w / before.power_w - 1):+.1f} %",
    }


def _newest(events: Iterable[Event]) -> list[object]:
    """The payloads in the order of their events."""
    return [e.payload for e in sorted(events, key=lambda event: (event.time_us, event.id))]


def _header(path: Path) -> list[str]:
    with path.open(newline="", encoding="utf-8") as file:
        try:
            return next(csv.reader(file), [])
        except (UnicodeDecodeError, csv.Error) as error:
            raise UnusableError(f"{path} is not a valid table: {error}") from error


def _signature(
    row: SignatureRow, node_model: str, pstates_ghz: Mapping[str, Sequence[float]]
) -> Signature:
    name = node_model or NODE_MODEL_OF_MODULE.get(row.module, row.module)
    found = replace(row.signature, node_model=name)
    if name in pstates_ghz:
        known = pstates_ghz[name]
        ghz = known[-1] if row.is_nominal else nearest_pstate(found.freq_ghz, known)
        return replace(found, freq_ghz=ghz)
    if row.is_nominal:
        problem = f"{row.row.where} names no P-state, and no cluster of {name} is declared"
        raise RejectedError("freq_ghz", problem)
    return found


def _with_run(known: Sequence[Signature], run: Signature) -> Sequence[Signature]:
    """The row as the application database keeps it; TPI in another unit begins it anew."""
    means = {each.freq_ghz: each for each in known if each.tpi_scale == run.tpi_scale}
    taken = SignatureProfile(means, dict.fromkeys(METRICS, 0.0)).taking(run).means
    return tuple([taken[ghz] for ghz in sorted(taken)])


def _declaration(table: Coefficients, reason: str, now_us: int) -> CoefficientsDeclared:
    return CoefficientsDeclared(
        node_model=table.node_model,
        tpi_scale=table.tpi_scale,
        pstates_ghz=table.pstates_ghz,
        **{name: getattr(table, name).ravel().tolist() for name in "abcdef"},
        available=table.available.ravel().tolist(),
        reason=reason,
        declared_at_us=now_us,
    )

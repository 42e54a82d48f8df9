"""The clocks that jobs got from what was imported of their applications: the demo measured none of
these before."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from coplace.v1.jobs_pb2 import JobFinished
from coplace.v1.placement_pb2 import PREDICTION_BASIS_SIGNATURE, Candidate, PlacementDecided
from rich.table import Table

from lab.demo.history import History
from lab.emulator.imported import ImportedSignatures

_Key = tuple[str, str]


class ClockFromImport(NamedTuple):
    """The jobs of an application that started on a node model before one of them was measured
    there, and the clock of the first; `job_id` is empty where none did."""

    app_id: str
    node_model: str
    imported_ghz: Sequence[float]
    jobs: int
    job_id: str = ""
    freq_ghz: float = 0.0


def clocks_from_import(history: History, imported: ImportedSignatures) -> Iterator[ClockFromImport]:
    """Yield what jobs got from each application that was imported, on each node model."""
    node_models = {cluster.cluster: cluster.node_model for cluster in history.clusters}
    starts, measured = history.starts(), {each.job_id for each in history.signatures}
    by_key: dict[_Key, list[tuple[PlacementDecided, JobFinished]]] = {}
    for job in history.finished:
        key = job.app_id, node_models[job.cluster]
        by_key.setdefault(key, []).append((starts[job.job_id, job.attempt], job))
    for key, signatures in imported.items():
        ran = by_key.get(key, [])
        known_us = min((j.ended_at_us for _, j in ran if j.job_id in measured), default=None)
        by_import = [
            decided
            for decided, _ in ran
            if (known_us is None or decided.decided_at_us <= known_us) and _is_known(decided)
        ]
        clocks = [each.freq_ghz for each in signatures]
        if not by_import:
            yield ClockFromImport(*key, clocks, 0)
            continue
        first = min(by_import, key=lambda decided: (decided.decided_at_us, decided.job_id))
        yield ClockFromImport(*key, clocks, len(by_import), first.job_id, first.freq_ghz)


def _is_known(decided: PlacementDecided) -> bool:
    """Return whether a signature was behind the choice of the clock."""
    chosen: Mapping[str, Candidate] = {each.cluster: each for each in decided.candidates}
    return chosen[decided.cluster].basis == PREDICTION_BASIS_SIGNATURE


def table(found: Iterator[ClockFromImport]) -> Table:
    """Return it as people read it."""
    rows = Table(title="clocks from imported signatures")
    for column in ("application", "node model", "imported at", "jobs by it alone", "the first"):
        rows.add_column(column)
    for each in found:
        at = ", ".join(f"{ghz:g}" for ghz in each.imported_ghz)
        first = f"{each.job_id}: {each.freq_ghz:g} GHz from the imported signature"
        said = first if each.jobs else "none ran there"
        rows.add_row(each.app_id, each.node_model, f"{at} GHz", str(each.jobs), said)
    return rows

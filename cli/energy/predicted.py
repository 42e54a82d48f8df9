"""`coplace energy`: what was predicted of the jobs that were started, against what was measured."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isclose
from statistics import fmean
from typing import Final, NamedTuple

from coplace.v1.jobs_pb2 import JobFinished
from coplace.v1.placement_pb2 import (
    PREDICTION_BASIS_SIGNATURE,
    VERDICT_START,
    Candidate,
    PlacementDecided,
)
from coplace.v1.telemetry_pb2 import SignatureMeasured
from rich.box import MARKDOWN
from rich.table import Table

from cli.output import Row
from shared.catalogue.event import Event, ReadTopic
from shared.domain.job import JobAttempt

# What CSV has where no job has ended yet.
COLUMNS: Final = ("application", "node model", "cluster", "runs")
_ERRORS: Final = ("W error", "s error", "J error")
# P-states are published with 8 digits and more.
_SAME_GHZ: Final = 1e-8


class ApplicationRuns(NamedTuple):
    """The runs of an application on the nodes of one model in a cluster: the unit of the report."""

    app_id: str
    node_model: str
    cluster: str


@dataclass(slots=True)
class Accuracy:
    """The runs of an application on the nodes of a cluster. Pairs are of a job that was placed by
    its signature, and was measured at the P-state that it was placed at: one node, one iteration.
    """

    runs: int = 0
    energy_j: float = 0.0
    without_signature: int = 0
    pairs: list[tuple[Candidate, SignatureMeasured]] = field(default_factory=list)


def by_application(topic: ReadTopic) -> dict[ApplicationRuns, Accuracy]:
    """Collect predictions and measurements of the jobs that ran to their end."""
    starts = dict(_starts(topic("placement.decisions")))
    measured = {message.job_id: message for message in _measurements(topic)}
    found: defaultdict[ApplicationRuns, Accuracy] = defaultdict(Accuracy)
    for (job_id, attempt), finished in _finished(topic).items():
        of = ApplicationRuns(finished.app_id, finished.node_model, finished.cluster)
        one = found[of]
        one.runs, one.energy_j = one.runs + 1, one.energy_j + finished.energy_j
        candidate, seen = starts.get((job_id, attempt)), measured.get(job_id)
        if candidate is None or candidate.basis != PREDICTION_BASIS_SIGNATURE:
            one.without_signature += 1
        elif seen is not None and _is_comparable(candidate, seen, of):
            one.pairs.append((candidate, seen))
    return dict(found)


def rows(found: Mapping[ApplicationRuns, Accuracy]) -> list[Row]:
    """Return a row for each: means, and mean absolute errors of the predictions in percent of
    them."""
    return [_row(of, found[of]) for of in sorted(found)]


def table(found: Mapping[ApplicationRuns, Accuracy]) -> Table:
    """Return the same figures as a table for people: watts of a node, and errors in percent."""
    shown = Table("application", "cluster", "runs", "W", "measured", box=MARKDOWN)
    for name in ("W %", "s %", "J %"):
        shown.add_column(name, justify="right")
    for row in rows(found):
        errors = ["" if row[name] is None else f"{row[name]:.1f}" for name in _ERRORS]
        shown.add_row(
            str(row["application"]), str(row["cluster"]), str(row["runs"]), *_watts(row), *errors
        )
    return shown


def _watts(row: Row) -> tuple[str, str]:
    if row["compared"]:
        return f"{row['W predicted']:.1f}", f"{row['W measured']:.1f}"
    return ("no signature" if row["without signature"] == row["runs"] else "not measured"), ""


def _row(of: ApplicationRuns, one: Accuracy) -> Row:
    columns = {
        "s": [(c.time_s, m.time_s) for c, m in one.pairs],
        "W": [(c.power_w, m.power_w) for c, m in one.pairs],
        "J": [(c.energy_j, m.power_w * m.time_s) for c, m in one.pairs],
    }
    row: dict[str, str | int | float | None] = {
        "application": of.app_id,
        "node model": of.node_model,
        "cluster": of.cluster,
        "runs": one.runs,
        "compared": len(one.pairs),
        "without signature": one.without_signature,
        "kWh of jobs": one.energy_j / 3.6e6,
    }
    for unit, pairs in columns.items():
        row[f"{unit} predicted"] = fmean(p for p, _ in pairs) if pairs else None
        row[f"{unit} measured"] = fmean(m for _, m in pairs) if pairs else None
        row[f"{unit} error"] = _percent(pairs) if pairs else None
    return row


def _percent(pairs: Sequence[tuple[float, float]]) -> float:
    return 100 * fmean(abs(predicted / measured - 1) for predicted, measured in pairs)


def _is_comparable(candidate: Candidate, seen: SignatureMeasured, of: ApplicationRuns) -> bool:
    is_there = (seen.app_id, seen.node_model) == (of.app_id, of.node_model)
    same_ghz = isclose(seen.freq_ghz, candidate.freq_ghz, rel_tol=0, abs_tol=_SAME_GHZ)
    return is_there and same_ghz and min(seen.time_s, seen.power_w) > 0


def _starts(events: Iterable[Event]) -> Iterator[tuple[JobAttempt, Candidate]]:
    """Yield where each attempt was started, as it was evaluated; of several starts the last."""
    for event in sorted(events, key=lambda event: (event.time_us, event.id)):
        decided = event.payload
        if isinstance(decided, PlacementDecided) and decided.verdict == VERDICT_START:
            for candidate in decided.candidates:
                if candidate.cluster == decided.cluster:
                    yield (decided.job_id, decided.attempt), candidate


def _measurements(topic: ReadTopic) -> Iterator[SignatureMeasured]:
    """Those of jobs, the newest last."""
    events = topic("telemetry.signatures")
    for event in sorted(events, key=lambda event: (event.time_us, event.id)):
        if isinstance(event.payload, SignatureMeasured) and event.payload.job_id:
            yield event.payload


def _finished(topic: ReadTopic) -> dict[JobAttempt, JobFinished]:
    """The attempts that ran; copies count once."""
    ends = (event.payload for event in topic("jobs.events"))
    return {
        (end.job_id, end.attempt): end
        for end in ends
        if isinstance(end, JobFinished) and end.started_at_us
    }

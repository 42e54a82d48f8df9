"""Schedules and summaries as files."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from coplace_client.files import write_whole
from lab.simulation.metrics import Summary
from lab.simulation.schedules import PlacedJob
from shared.process.folders import write_csv
from shared.replay.played import JobIds, Played
from shared.scheduling.workload import Floats

JOB_COLUMNS: Final = ("job_id", "submit_s", "start_s", "end_s", "procs")
DRAW_COLUMNS: Final = ("job_id", "from_s", "power_w")
MORE_COLUMNS: Final = ("cluster", "freq_ghz", "wait_s", "energy_j")


def write_jobs(path: Path, played: Played, job_id: JobIds) -> None:
    """Write one line a job, by submission: JOB_COLUMNS and no more."""
    write_csv(path, JOB_COLUMNS, zip(*_job_columns(played, job_id), strict=True))


def write_placements(path: Path, placements: Iterable[PlacedJob]) -> None:
    """Write jobs on nodes, without processors: where nodes are given out in parts, jobs have units
    of their own."""
    rows = ((p.job_id, *_plain((p.submit_s, p.start_s, p.end_s))) for p in placements)
    write_csv(path, JOB_COLUMNS[:4], rows)


def write_draws(
    path: Path, placements: Iterable[PlacedJob], draws: Iterable[Iterable[tuple[float, int]]]
) -> None:
    """Write what each of these jobs draws, W, from when on, as (s, mW), until its next line: one of
    0 W when it ends."""
    rows = (
        (placed.job_id, *_plain((from_s, draw_mw / 1000)))
        for placed, drawn in zip(placements, draws, strict=True)
        for from_s, draw_mw in (*drawn, (placed.end_s, 0))
    )
    write_csv(path, DRAW_COLUMNS, rows)


def write_all_of_jobs(path: Path, played: Played, job_id: JobIds) -> None:
    """Write jobs with MORE_COLUMNS; the frequency is empty where no application is known."""
    clusters = [played.fleet.names[index] for index in played.schedule.cluster.tolist()]
    ghz: Sequence[object] = [""] * len(clusters)
    if played.traits is not None:
        ghz = played.chosen(played.traits.freq_ghz).tolist()
    more = (clusters, ghz, _numbers(played.wait_s), _numbers(played.energy_j))
    rows = zip(*_job_columns(played, job_id), *more, strict=True)
    write_csv(path, (*JOB_COLUMNS, *MORE_COLUMNS), rows)


def write_summary(path: Path, summary: Summary) -> None:
    """Write the measures of a schedule as JSON."""
    with write_whole(path) as fresh:
        fresh.write_text(json.dumps(asdict(summary), indent=2) + "\n", encoding="utf-8")


def _job_columns(played: Played, job_id: JobIds) -> tuple[Sequence[object], ...]:
    schedule = played.schedule
    times = (played.workload.submit_s, schedule.start_s, schedule.end_s)
    return job_id.tolist(), *map(_numbers, times), played.used_units.tolist()


def _numbers(values: Floats) -> list[object]:
    return _plain(values.tolist())


def _plain(values: Iterable[float]) -> list[object]:
    """Whole numbers without a point, as logs have them."""
    return [int(value) if value.is_integer() else value for value in values]

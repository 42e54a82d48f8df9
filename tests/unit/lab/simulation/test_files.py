import csv
import json
from pathlib import Path

import numpy as np

from lab.simulation.files import write_all_of_jobs, write_draws, write_jobs, write_summary
from lab.simulation.metrics import summarise
from lab.simulation.schedules import PlacedJob
from shared.replay.played import Played
from tests.unit.lab.simulation.schedules import fleet, played

RUN = played([(0, 0, 10, 4, 0), (3, 1.5, 7, 2, 1)])
IDS = np.array([17, 12])


def lines(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_the_jobs_of_a_log_are_written_under_their_numbers(tmp_path: Path) -> None:
    write_jobs(tmp_path / "deep" / "jobs.csv", RUN, IDS)
    assert lines(tmp_path / "deep" / "jobs.csv") == [
        ["job_id", "submit_s", "start_s", "end_s", "procs"],
        ["17", "0", "0", "10", "4"],
        ["12", "3", "4.5", "11.5", "2"],
    ]


def test_all_that_is_known_of_jobs_is_written_behind_that(tmp_path: Path) -> None:
    write_all_of_jobs(tmp_path / "jobs.csv", RUN, IDS)
    header, first, second = lines(tmp_path / "jobs.csv")
    assert header[5:] == ["cluster", "freq_ghz", "wait_s", "energy_j"]
    assert first[5:] == ["p1", "2.0", "0", "4000"]
    assert second[5:] == ["p2", "3.0", "1.5", "2100"]
    write_all_of_jobs(tmp_path / "jobs.csv", Played(RUN.workload, RUN.schedule, fleet()), IDS)
    assert lines(tmp_path / "jobs.csv")[1][6] == "", "a frequency that nobody knows"


def test_a_summary_is_written_with_its_clusters(tmp_path: Path) -> None:
    write_summary(tmp_path / "summary.json", summarise(RUN))
    found = json.loads((tmp_path / "summary.json").read_text())
    assert found["makespan_s"] == 11.5
    assert found["wait_s"]["mean"] == 0.75
    assert [cluster["name"] for cluster in found["clusters"]] == ["p1", "p2"]


def test_draws_are_written_to_the_milliwatt_until_nothing_is_drawn(tmp_path: Path) -> None:
    placed = [PlacedJob(each, 0.0, 1.5, 9.0, 1, (0,), 1, 0.0, ()) for each in ("a", "b")]
    write_draws(tmp_path / "draws.csv", placed, [[(1.5, 40_000), (3.25, 13_334)], [(1.5, 1000)]])
    assert lines(tmp_path / "draws.csv") == [
        ["job_id", "from_s", "power_w"],
        *(["a", "1.5", "40"], ["a", "3.25", "13.334"], ["a", "9", "0"]),
        *(["b", "1.5", "1"], ["b", "9", "0"]),
    ]

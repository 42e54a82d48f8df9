"""Instances of Eurora under EASY on nodes that are given out in parts."""

import csv
from dataclasses import replace

import pytest

from coplace_client.errors import UnusableError
from lab.papers.published_data import DATA
from lab.simulation.eurora import EuroraRun, figures_of, impossible_in, play_eurora
from lab.workloads.eurora import (
    EuroraJob,
    EuroraMachine,
    EuroraUnit,
    read_jobs,
    read_machine,
    read_power_predictions,
)
from shared.domain.cluster import NodeClass
from tests.support.data import needs_data

SMALL = EuroraMachine(16, (NodeClass(1, 32.0, (("mic", 2),)), NodeClass(1, 32.0, (("gpu", 2),))))
HALF = EuroraUnit(8, 4.0, ())
JOB = EuroraJob("a", "debug", 0.0, 1, HALF, 100.0, 50.0, 40)


def starts_s(*jobs: EuroraJob) -> list[float]:
    run = play_eurora(SMALL, jobs)
    assert impossible_in(run, SMALL) == []
    return [placement.start_s for placement in run.placements]


def test_units_share_nodes_and_go_where_their_accelerators_are() -> None:
    gpu = replace(JOB, unit=HALF._replace(resources=(("gpu", 1),)))
    run = play_eurora(SMALL, [JOB, gpu, gpu, JOB, replace(JOB, job_id="b")])
    assert [placement.start_s for placement in run.placements] == [0, 0, 0, 0, 50]
    assert [placement.nodes for placement in run.placements[:4]] == [(0,), (1,), (1,), (0,)]


def test_a_short_job_is_backfilled_and_delays_no_reservation() -> None:
    wide = replace(JOB, units=4, submit_s=1.0)
    short = replace(JOB, submit_s=2.0, walltime_s=90.0)
    long = replace(JOB, submit_s=2.0, walltime_s=99.0)
    assert starts_s(replace(JOB, units=3), wide, short) == [0, 52, 2]
    assert starts_s(replace(JOB, units=3), wide, long) == [0, 50, 100]


def test_figures_are_those_of_the_published_results() -> None:
    wide = replace(JOB, units=4, power_w=160)
    run = play_eurora(SMALL, [wide, replace(wide, submit_s=10.0)])
    figures = figures_of(run)
    assert (figures.makespan_s, figures.queue_time_s, figures.max_power_w) == (100, 40, 160)
    assert figures.bounded_slowdown == (1 + 90 / 60) / 2


@pytest.mark.parametrize(
    ("job", "problem"),
    [
        (replace(JOB, units=5), "too many"),
        (replace(JOB, unit=HALF._replace(resources=(("fpga", 1),))), "fpga"),
        (replace(JOB, unit=HALF._replace(memory_gib=33.0)), "too many"),
    ],
)
def test_a_job_that_the_machine_does_not_hold_is_named(job: EuroraJob, problem: str) -> None:
    with pytest.raises(UnusableError, match=f"job a .*{problem}"):
        play_eurora(SMALL, [job])


def _run(name: str) -> tuple[EuroraMachine, EuroraRun]:
    folder = DATA / "eurora"
    machine = read_machine(folder / "nodes_64.csv")
    [path] = folder.glob(f"*/{name}")
    power_w = read_power_predictions(folder / "power_predictions.csv").found
    return machine, play_eurora(machine, read_jobs(path, power_w))


@needs_data
def test_instances_are_played_to_their_ends_and_no_schedule_is_impossible() -> None:
    with (DATA / "eurora" / "pa_hpc_sim_results.csv").open() as file:
        names = sorted({row["instance"] for row in csv.DictReader(file)})
    for name in names[::12]:
        machine, run = _run(name)
        assert impossible_in(run, machine) == []
        assert len(run.placements) == len(run.jobs)

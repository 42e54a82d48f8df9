"""The published instances of Eurora are read by the rules of their authors."""

import csv
import re
from pathlib import Path

import pytest

from coplace_client.errors import UnusableError
from lab.papers.published_data import DATA
from lab.simulation.schedules import PlacedJob, violations
from lab.workloads.eurora import (
    EuroraJob,
    read_jobs,
    read_machine,
    read_power_predictions,
    read_queues,
)
from tests.support.data import needs_data

FOLDER = DATA / "eurora"
INSTANCES = sorted(FOLDER.glob("*/*.log_crypt")) if FOLDER.exists() else []
NAMES = [path.name for path in INSTANCES]
JOB = (
    "1334697;xxx;yyy;parallel;2014-09-13 23:54:10__62;2;2;0;4194304#8;2;2;0;4194304#"
    "__2014-09-13 23:54:18;2014-09-14 01:54:43;2;32;8;01:59;NA;NA;COMPLETED;0"
)


def written(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "jobs.log"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def one(tmp_path: Path, line: str = JOB, power_w: float | None = None) -> EuroraJob:
    [job] = read_jobs(written(tmp_path, line), {} if power_w is None else {"1334697": power_w})
    return job


def test_a_line_is_a_job_of_equal_units_that_runs_to_its_limit_or_as_long_as_it_did(
    tmp_path: Path,
) -> None:
    job = one(tmp_path)
    assert (job.job_id, job.queue, job.submit_s, job.units) == ("1334697", "parallel", 0.0, 2)
    assert job.unit == (2, 4.0, (("gpu", 2),))
    assert (job.walltime_s, job.runtime_s) == (7140.0, 7140.0)
    assert one(tmp_path, JOB.replace("01:59", "08:00")).runtime_s == 7225.0


@pytest.mark.parametrize(
    ("predicted", "power_w"),
    [(None, 2 * (40 + 2 * 62)), (213.0, 214), (212.2, 214), (0.1, 2), (5000.0, 800)],
)
def test_power_is_rounded_up_node_by_node_within_its_bounds(
    tmp_path: Path, predicted: float | None, power_w: int
) -> None:
    assert one(tmp_path, power_w=predicted).power_w == power_w


def test_jobs_replace_it_the_order_of_their_submission(tmp_path: Path) -> None:
    later = JOB.replace("1334697", "7").replace("23:54:10", "23:55:10")
    same = JOB.replace("1334697", "8")
    jobs = read_jobs(written(tmp_path, later, JOB, same), {})
    assert [(job.job_id, job.submit_s) for job in jobs] == [("1334697", 0), ("8", 0), ("7", 60)]


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        JOB.replace("__", "_"),
        JOB.replace("8;2;2;0;4194304", "8;3;2;0;4194304"),
        JOB.replace("62;2;2;0;4194304#8;2;2;0;4194304#", ""),
        JOB.replace("01:59", "never"),
        JOB.replace("01:59", "00:00"),
        JOB.replace("2014-09-14 01:54:43", "2014-09-12 01:54:43"),
        JOB.replace("62;2;2", "62;two;2"),
    ],
)
def test_a_line_that_is_no_job_is_refused_by_its_number(tmp_path: Path, line: str) -> None:
    with pytest.raises(UnusableError, match=r"jobs\.log:2: is not a job"):
        read_jobs(written(tmp_path, JOB, line), {})


_UNIT = "8;2;2;0;4194304"


def of_unit(unit: str) -> str:
    """The job with both of its units like this."""
    return JOB.replace("62;2;2;0;4194304", unit).replace(_UNIT, unit)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (of_unit(f"8;2;{10**20};0;4194304"), "gpus: must be a whole number from 0 to 10,000"),
        (of_unit(f"8;2;0;{10**400};4194304"), "mics: must be a whole number from 0 to 10,000"),
        (of_unit("8;10001;0;0;4194304"), "cores: must be a whole number from 1 to 10,000"),
        (of_unit("8;-1;0;0;4194304"), "cores: must be a whole number from 1 to 10,000"),
        (of_unit(f"8;2;0;0;{10**30}"), "memory_kib: must be a whole number from 0 to 1,048,576,"),
        (of_unit("8;2;0;0;-4194304"), "memory_kib: must be a whole number from 0 to 1,048,576,"),
        (of_unit(f"8;2;0;0;{'9' * 5000}"), "memory_kib: must be"),
        (JOB.replace("01:59", "01:99"), "minutes: must be a whole number from 0 to 59, got '99'"),
        (JOB.replace("01:59", "-1:30"), "hours: must be a whole number from 0 to 8,784"),
        (JOB.replace("01:59", "01:59:00"), "minutes: must be a whole number from 0 to 59"),
        (JOB.replace("01:59", f"{10**400}:00"), "hours: must be a whole number from 0 to 8,784"),
        (JOB.replace("1334697", ""), "job_id: must be 1 to 256 printable characters, got ''"),
    ],
)
def test_what_no_machine_has_is_refused_with_its_bound(
    tmp_path: Path, line: str, problem: str
) -> None:
    with pytest.raises(UnusableError, match=f"jobs.log:1: is not a job of Eurora: {problem}"):
        one(tmp_path, line)


def test_a_job_that_is_twice_is_refused_with_both_lines_and_a_file_without_any(
    tmp_path: Path,
) -> None:
    with pytest.raises(UnusableError, match="must hold 1 to"):
        read_jobs(written(tmp_path), {})
    other = JOB.replace("1334697", "7")
    with pytest.raises(UnusableError, match=r"jobs\.log:3: job 1334697 is listed twice, in line 1"):
        read_jobs(written(tmp_path, JOB, other, JOB.replace("parallel", "debug")), {})


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (f"1 {10**22} 0 2 33554432 0", "cores: must be a whole number from 1 to 10,000"),
        ("1 0 0 2 33554432 0", "cores: must be a whole number from 1 to 10,000"),
        (f"1 16 {10**22} 2 33554432 0", "gpus: must be a whole number from 0 to 10,000"),
        (f"1 16 0 2 {10**400} 0", "memory_kib: must be a whole number from 104,858 to"),
        ("1 16 0 2 0 0", "memory_kib: must be a whole number from 104,858 to"),
        ("1 16 0 2 33554432 1", "reserved: must be 0: nodes that are dedicated to reservations"),
        ("1 16 0", ""),
        ("1 16 0 2 lots 0", ""),
    ],
)
def test_a_node_that_cannot_be_played_is_refused_by_its_number(
    tmp_path: Path, line: str, problem: str
) -> None:
    with pytest.raises(UnusableError, match=rf"jobs\.log:2: {problem}"):
        read_machine(written(tmp_path, "0 16 0 2 33554432 0", line))
    with pytest.raises(UnusableError, match=r"jobs\.log must list nodes by number from 0"):
        read_machine(written(tmp_path, "1 16 0 2 33554432 0"))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("debug 60", "queue debug is listed twice"),
        (f"longpar {10**400}", "whole seconds above 0, 31,622,400 at most"),
        ("longpar 1 2", "must be a queue and whole seconds"),
    ],
)
def test_queues_that_are_none_are_refused_by_their_number(
    tmp_path: Path, line: str, problem: str
) -> None:
    with pytest.raises(UnusableError, match=rf"jobs\.log:2: .*{problem}"):
        read_queues(written(tmp_path, "debug 3600", line))


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("7,nan", "has a power of nan W in .*:3"),
        ("7,-1", "has a power of -1.0 W in .*:3"),
        ("7,1e400", "has a power of 1e400 W in .*:3"),
        ("7,213,5", "has a power of 213,5 W in .*:3"),
        ("7", "has a power of  W in .*:3"),
        ("7,9\n7,9", "is listed twice in .*, in lines 3 and 4: leave one"),
    ],
)
def test_a_row_that_says_no_power_is_wrong_of_its_job_alone(
    tmp_path: Path, row: str, problem: str
) -> None:
    column = read_power_predictions(written(tmp_path, "job_id,power_w", "8,40", row))
    assert column.found == {"8": 40.0}
    assert column.wrong.keys() == {"7"}
    assert re.search(f"^job 7 {problem}$", column.wrong["7"])


@pytest.mark.parametrize(
    "content",
    [
        ["job_id,watts", "7,1"],
        ["job_id,power_w,power_w", "7,1,2"],
        ["job_id,power_w", '7,"1', "8,2"],
        ["job_id,power_w", f"7,{'9' * 200_000}"],
        [],
    ],
)
def test_a_file_that_is_no_csv_of_powers_is_refused(tmp_path: Path, content: list[str]) -> None:
    with pytest.raises(UnusableError, match=r"jobs\.log (must be a|is not a) CSV of job"):
        read_power_predictions(written(tmp_path, *content))


@needs_data
def test_the_machine_has_two_classes_of_nodes_and_all_instances_that_have_results_are_there() -> (
    None
):
    machine = read_machine(FOLDER / "nodes_64.csv")
    assert (machine.nodes, machine.cores_per_node) == (64, 16)
    classes = [(c.nodes, c.memory_gib, c.resources) for c in machine.node_classes]
    assert classes == [(32, 32.0, (("mic", 2),)), (32, 32.0, (("gpu", 2),))]
    with (FOLDER / "pa_hpc_sim_results.csv").open() as file:
        assert {row["instance"] for row in csv.DictReader(file)} <= set(NAMES)


@needs_data
@pytest.mark.parametrize("path", INSTANCES, ids=NAMES)
def test_every_instance_is_read_and_each_of_its_jobs_fits_on_the_machine(path: Path) -> None:
    machine = read_machine(FOLDER / "nodes_64.csv")
    jobs = read_jobs(path, read_power_predictions(FOLDER / "power_predictions.csv").found)
    assert len(jobs) == int(path.name.split("_")[1])
    for job in jobs:
        node = 63 if "gpu" in dict(job.unit.resources) else 0
        alone = PlacedJob(job.job_id, 0.0, 0.0, 1.0, 1, (node,), *job.unit)
        assert not list(violations([alone], machine.cores_per_node, machine.node_classes))
        assert job.units <= job.power_w <= 400 * job.units

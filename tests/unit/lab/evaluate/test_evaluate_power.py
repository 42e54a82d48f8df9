"""`coplace evaluate power`: on logs as they should be, and as they come."""

from pathlib import Path

import numpy as np
import pytest

from lab.evaluate.power_log import read_log
from lab.evaluate.scores import groups, score
from shared.power_prediction.submission import MeasuredPower, Submission
from tests.unit.cli.command_line import coplace, refusal
from tests.unit.services.energy.files import read
from tests.unit.shared.power_prediction.logs import drifting_log

HEADER = (
    "cluster,month_file,avg_power_per_node_w,job_id,nodes,cores,req_walltime_s,runtime_s,user\n"
)


def write_log(path: Path, *rows: str) -> Path:
    path.write_text(HEADER + "".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path


def evaluate(log: Path, *words: str) -> tuple[str, list[dict[str, str]]]:
    """What was printed, and what was predicted."""
    out = log.with_name("out.csv")
    done = coplace("evaluate", "power", "--log", log, "--csv", out, *words)
    assert done.exit_code == 0, done.output
    return done.output, read(out)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("power") / "log.csv"
    lines = [
        f"p1,{3 if n < 200 else 4},{outcome.node_power_w:.1f},{1000 + n},{job.nodes:.0f},"
        f"{20 * job.nodes:.0f},{job.walltime_s:.0f},{outcome.runtime_s:.0f},{job.user}"
        for n, (job, outcome) in enumerate(drifting_log(2, 400))
    ]
    return write_log(path, *lines)


def test_each_job_of_the_test_share_is_predicted_below_its_bound(
    made: Path, tmp_path: Path
) -> None:
    plot = tmp_path / "plot.png"
    told, rows = evaluate(
        made, *("--lag", "40", "--train-share", "0.7", "--plot", str(plot), "--explain", "1390")
    )
    assert [row["job_id"] for row in rows] == [str(1280 + n) for n in range(120)]
    assert list(rows[0]) == ["job_id", "actual_w", "predicted_w", "upper_w"]
    actual, predicted, upper = (
        np.array([float(row[name]) for row in rows]) for name in list(rows[0])[1:]
    )
    assert np.mean(np.abs(predicted / actual - 1)) < 0.2
    assert (predicted <= upper).all()
    assert f"{100 * np.mean(np.abs(predicted / actual - 1)):.2f} %" in told
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert "1390: " in told
    assert "same user" in told


def test_jobs_come_in_the_order_of_months_that_lead_over_the_new_year_and_of_their_ids(
    tmp_path: Path,
) -> None:
    rows = [f"p1,{month},100,{n},1,20,60,60,ada" for n, month in enumerate((2, 1, 12, 10, 10, 11))]
    found = read_log(write_log(tmp_path / "log.csv", *reversed(rows)))
    assert [job.job_id for job, _ in found.jobs] == ["3", "4", "5", "2", "1", "0"]


def test_ids_that_are_no_numbers_leave_the_order_of_the_file(tmp_path: Path) -> None:
    rows = ("p1,2,100,b,1,20,60,60,ada", "p1,1,100,a,1,20,60,60,ada")
    found = read_log(write_log(tmp_path / "log.csv", *rows))
    assert [job.job_id for job, _ in found.jobs] == ["b", "a"]


def test_what_is_missing_or_absurd_is_counted_and_all_jobs_are_predicted(tmp_path: Path) -> None:
    bad = [
        *("p1,1,0,1,1,20,60,60,ada", "p1,1,-3,2,1,20,60,60,ada", "p1,1,1e12,3,1,20,60,60,ada"),
        *("p1,1,,4,1,20,60,60,ada", "p1,1,nan,5,,,,,", ",1,inf,6,-1,x,1e999,,ada", "p1,1,80,7"),
        *("p2,1,90,8,4,80,60,60,somebody else", "p1,1,85,9,1,20,60,60,ada"),
    ]
    log = write_log(tmp_path / "log.csv", *bad)
    told, rows = evaluate(log, "--lag", "1", "--train-share", "0")
    assert len(rows) == len(bad)
    assert all(0 < float(row["predicted_w"]) <= float(row["upper_w"]) for row in rows)
    assert [row["actual_w"] for row in rows][3:6] == ["", "", ""]
    assert "6 jobs have no power that a node can draw" in told
    assert "nothing known: the fallback" in told


def test_one_sample_is_enough(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.csv", "p1,1,100,1,1,20,60,60,ada")
    assert [row["job_id"] for row in evaluate(log)[1]] == ["1"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "has no column avg_power_per_node_w"),
        (b"job_id,user\n1,ada\n", "has no column avg_power_per_node_w"),
        (HEADER.encode(), "has no jobs"),
        (HEADER.encode() + b"\xff\xfe\n", "is not CSV"),
        (HEADER.encode() + b'"' + b"x" * 200_000, "is not CSV"),
        (HEADER.encode() + b"p1,1,100,1,1,20,60,60,ada\n", "no job of the log is called 'nobody'"),
    ],
)
def test_what_is_no_log_or_has_no_such_job_is_reported_in_one_line(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    log, out = tmp_path / "log.csv", tmp_path / "out.csv"
    log.write_bytes(content)
    given = ("--log", log, "--csv", out, "--explain", "nobody")
    assert problem in refusal("evaluate", "power", *given)
    assert not out.exists()


def test_scores_are_of_the_jobs_of_their_kind() -> None:
    jobs = [(Submission(str(n), "old"), MeasuredPower(100.0)) for n in range(20)]
    jobs[18] = (Submission("18", "new"), MeasuredPower(200.0))
    jobs[19] = (Submission("19", "old"), MeasuredPower(0.0))
    kinds = groups(jobs, 10)
    assert {name: int(of.sum()) for name, of in kinds.items()} == {
        "all of the test share": 9,
        **{f"fifth {n}": 2 for n in range(1, 5)},
        "fifth 5": 1,
        "of users without earlier jobs": 1,
        "first ten jobs of each user": 1,
    }
    actual = np.array([outcome.node_power_w for _, outcome in jobs[10:]])
    predicted, upper = np.full(10, 150.0), np.full(10, 160.0)
    found = score(actual, predicted, upper, kinds["fifth 5"])
    assert found == (1, 25.0, 0.0, 10.0)
    assert score(actual, predicted, upper, kinds["fifth 1"]) == (2, 50.0, 100.0, 10.0)

"""`coplace simulate` on small files and on the published ones."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer import main
from typer.testing import CliRunner, Result

from cli.main import app
from shared.simulation import plots
from tests.support.data import DATA, needs_data
from tests.unit.cli.hostile import given, options_of, problems_of, write_files
from tests.unit.services.energy.files import apps, pairs, write

LINE = "{job} {submit} -1 {run} {procs} -1 -1 {procs} {limit} -1 1 1 1 -1 -1 -1 -1 -1"
JOBS = (  # job, submit, run, procs, limit: 13 waits for 11, 15 ends before 13 can start
    (11, 0, 10, 3, 12),
    (13, 1, 20, 4, 20),
    (15, 2, 5, 1, 5),
    (17, 3, 9, 9, 9),
    (19, 40, 30, 2, 25),
)


def coplace_simulate(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["simulate", *map(str, arguments)])


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "small.swf"
    names = ("job", "submit", "run", "procs", "limit")
    lines = [LINE.format(**dict(zip(names, job, strict=True))) for job in JOBS]
    path.write_text("; MaxProcs: 4\n" + "\n".join([*lines, "oops"]) + "\n")
    return path


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A folder of coefficients and signatures of two modules."""
    folder = tmp_path / "models"
    folder.mkdir()
    signatures: list[dict[str, object]] = []
    for number, module in enumerate(("left", "right")):
        write(folder / f"{module}_coefficients.csv", pairs({"A": 0.5, "C": 10.0}))
        for app_id, time_s in (("a", 10.0 + number), ("b", 12.0 - 2 * number)):
            signatures.append({"app_id": app_id, "module": module, "time_s": time_s})
    write(folder / "apps.csv", apps(*signatures))
    return folder


@pytest.fixture
def system(tmp_path: Path) -> Path:
    path = tmp_path / "system.yaml"
    clusters = [f"  - {{name: {m}, module: {m}, nodes: 128}}" for m in ("left", "right")]
    path.write_text("\n".join(["clusters:", *clusters]))
    return path


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_log_is_played_and_its_jobs_written(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "jobs.csv"
    done = coplace_simulate("--swf", log, "--policy", "easy", "--jobs-csv", out)
    assert done.exit_code == 0, done.output
    assert out.read_text().splitlines() == [
        "job_id,submit_s,start_s,end_s,procs",
        "11,0,0,10,3",
        "13,1,10,30,4",
        "15,2,2,7,1",
        "19,40,40,65,2",
    ]
    assert "1 left out: line without 18 fields" in done.stderr
    assert "1 left out: more processors than the machine has" in done.stderr
    assert "small.swf, 4 processors" in done.stdout


def test_first_come_first_served_lets_nothing_pass(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "jobs.csv"
    done = coplace_simulate("--swf", log, "--policy", "fcfs", "--jobs-csv", out)
    assert done.exit_code == 0, done.output
    assert [row["start_s"] for row in read(out)] == ["0", "10", "30", "40"]


def test_more_processors_hold_the_job_that_was_too_large(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "jobs.csv"
    coplace_simulate("--swf", log, "--procs", 9, "--jobs-csv", out)
    assert [row["job_id"] for row in read(out)] == ["11", "13", "15", "17", "19"]


def test_jobs_run_past_their_walltime_when_nobody_kills_them(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "jobs.csv"
    coplace_simulate("--swf", log, "--no-kill", "--jobs-csv", out)
    assert read(out)[-1]["end_s"] == "70"


def test_a_cap_holds_jobs_back(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "jobs.csv"
    coplace_simulate("--swf", log, "--cap-w", 300, "--proc-w", 100, "--jobs-csv", out)
    starts = {row["job_id"]: row["start_s"] for row in read(out)}
    assert starts == {"11": "0", "15": "10", "19": "40"}


def test_idle_power_counts_under_a_cap_unless_it_is_left_out(log: Path, tmp_path: Path) -> None:
    """11 has 3 of 4 processors and 15 the last one: 400 W, of which 280 W are beyond idle."""
    for cap, expected in (
        (("--cap-w", 399), "10"),
        (("--cap-w", 400), "2"),
        (("--cap-w", 279, "--no-cap-counts-idle"), "10"),
        (("--cap-w", 280, "--no-cap-counts-idle"), "2"),
    ):
        out = tmp_path / "jobs.csv"
        known = ("--proc-w", 100, "--idle-w", 30, "--jobs-csv", out)
        done = coplace_simulate("--swf", log, *known, *cap)
        assert done.exit_code == 0, done.output
        assert {row["job_id"]: row["start_s"] for row in read(out)}["15"] == expected, cap


def test_predictions_are_refused_where_nothing_is_backfilled_by_them(log: Path) -> None:
    for policy in ("slurm", "sjf", "fcfs", "conservative"):
        done = coplace_simulate("--swf", log, "--policy", policy, "--runtimes", "predicted")
        assert (done.exit_code, done.stdout) == (1, ""), done.output
        assert f"--runtimes predicted is of no use to {policy}" in done.stderr
        assert done.stderr.rstrip().endswith("say --policy easy alone")
    done = coplace_simulate("--swf", log, "--policy", "easy", "--runtimes", "predicted")
    assert done.exit_code == 0, done.output


def test_a_run_is_written_with_its_summary_and_pictures(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    coplace_simulate("--swf", log, "--proc-w", 100, "--idle-w", 10, "--out", out)
    summary = json.loads((out / "summary.json").read_text())
    assert summary["makespan_s"] == 65
    assert summary["wait_s"]["mean"] == pytest.approx(9 / 4)
    assert summary["busy_energy_j"] == 100 * (30 + 80 + 5 + 50)
    assert summary["idle_energy_j"] == 10 * (4 * 65 - 165)
    assert [row["cluster"] for row in read(out / "jobs.csv")] == ["procs"] * 4
    assert {path.name for path in out.iterdir()} == {
        *("summary.json", "jobs.csv", "load.png", "gantt.png", "power.png"),
    }


def test_pictures_that_would_show_nothing_are_not_there(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    coplace_simulate("--swf", log, "--proc-w", 100, "--out", out)
    monkeypatch.setattr(plots, "LARGEST_GANTT", 3)
    coplace_simulate("--swf", log, "--out", out)
    assert {path.name for path in out.iterdir()} == {"summary.json", "jobs.csv", "load.png"}


def test_what_cannot_be_played_is_told_in_words(log: Path, tmp_path: Path) -> None:
    done = coplace_simulate("--swf", log, "--procs", 1, "--proc-w", 100, "--cap-w", 50)
    assert done.exit_code == 1
    assert (
        "4 for more processors than the machine has, 1 for more power than the cap, alone"
        in done.stderr
    )
    assert "<" not in done.stderr
    unnamed = tmp_path / "unnamed.swf"
    unnamed.write_text("".join(line for line in log.read_text().splitlines(True) if line[0] != ";"))
    done = coplace_simulate("--swf", unnamed)
    assert done.exit_code == 1
    assert "give --procs" in done.stderr


def test_the_table_says_how_many_jobs_were_played(log: Path) -> None:
    done = coplace_simulate("--swf", log)
    assert re.search(r"easy │ +4 │", done.stdout)


def test_links_in_the_folder_are_not_followed(log: Path, tmp_path: Path) -> None:
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    out.mkdir()
    elsewhere.write_text("precious")
    for name in ("summary.json", "jobs.csv", "gantt.png", "load.png", "power.png"):
        (out / name).symlink_to(elsewhere)
    done = coplace_simulate("--swf", log, "--out", out)
    assert done.exit_code == 0, done.output
    assert elsewhere.read_text() == "precious"
    assert not any(path.is_symlink() for path in out.iterdir())


def test_several_policies_are_compared(log: Path, tmp_path: Path) -> None:
    policies = ("fcfs", "sjf", "easy", "conservative")
    options = [each for policy in policies for each in ("--policy", policy)]
    done = coplace_simulate("--swf", log, *options, "--workers", 2, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    rows = read(tmp_path / "out" / "comparison.csv")
    assert [row["policy"] for row in rows] == list(policies)
    assert float(rows[0]["wait_s_mean"]) == pytest.approx((9 + 28) / 4)
    assert (tmp_path / "out" / "comparison.png").exists()
    assert all(policy in done.stdout for policy in policies)


def test_jobs_of_clusters_are_played_and_compared(
    models: Path, system: Path, tmp_path: Path
) -> None:
    done = coplace_simulate(
        *("--system", system, "--coefficients", models, "--jobs", 60, "--workers", 2),
        *("--policy", "base", "--policy", "priority-inc", "--t-weight", 1, "--t-weight", 1.5),
        *("--mix", "uniform", "--mix", 0.5, "--seed", 1, "--seed", 2, "--out", tmp_path / "out"),
    )
    assert done.exit_code == 0, done.output
    rows = read(tmp_path / "out" / "comparison.csv")
    assert len(rows) == 2 * 2 * 2 * 2
    assert {row["mix"] for row in rows} == {"uniform", "0.5"}
    assert all(float(row["busy_energy_j"]) > 0 for row in rows)
    assert "cirne 50%, priority-inc w=1.5" in done.stdout
    assert "±" in done.stdout


def test_one_case_on_clusters_is_written_in_full(
    models: Path, system: Path, log: Path, tmp_path: Path
) -> None:
    done = coplace_simulate(
        *("--system", system, "--coefficients", models, "--workload", log),
        *("--policy", "reorder", "--out", tmp_path / "out"),
    )
    assert done.exit_code == 0, done.output
    rows = read(tmp_path / "out" / "jobs.csv")
    assert [row["job_id"] for row in rows] == ["11", "13", "15", "17", "19"]
    assert {row["freq_ghz"] for row in rows} <= {"1.0", "2.0"}
    assert (tmp_path / "out" / "gantt.png").exists()


def test_clusters_of_a_site_keep_to_its_cap_together(
    log: Path, models: Path, system: Path, tmp_path: Path
) -> None:
    """Jobs of 3 and 4 nodes run side by side on two clusters; the cap leaves watts for 4 nodes."""
    clusters = system.read_text().replace("128}", "4, site: north}")
    highest = {}
    for name, caps in (("free", ""), ("capped", "\ncaps: {north: 1200}")):
        system.write_text(clusters + caps)
        done = coplace_simulate(
            *("--system", system, "--coefficients", models, "--workload", log),
            *("--out", tmp_path / name),
        )
        assert done.exit_code == 0, done.output
        summary = json.loads((tmp_path / name / "summary.json").read_text())
        highest[name] = summary["highest_of_cap"], summary["above_cap_s"]
    starts = {
        name: {row["job_id"]: float(row["start_s"]) for row in read(tmp_path / name / "jobs.csv")}
        for name in highest
    }
    assert starts["free"]["13"] == 1
    assert starts["capped"]["13"] > 1
    assert highest["free"] == (None, None)
    share, above_s = highest["capped"]
    assert 0.7 < share <= 1
    assert above_s == 0


@pytest.mark.parametrize("caps", ["cap_w: 90000", "caps: {north: 90000}"])
def test_what_is_of_caps_is_taken_where_the_system_has_one(
    caps: str, log: Path, models: Path, system: Path
) -> None:
    text = system.read_text().replace("128}", "128, site: north}")
    of_all = caps.startswith("caps")
    system.write_text(f"{text}\n{caps}" if of_all else text.replace("site: north", caps))
    done = coplace_simulate(
        *("--system", system, "--coefficients", models, "--workload", log),
        *("--no-cap-counts-idle", "--cap-slowdown", 1.5),
    )
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ((), "--swf is needed"),
        (("--swf", "none.swf"), "none.swf"),
        (("--swf", "LOG", "--policy", "reorder"), "needs applications"),
        (("--swf", "LOG", "--t-weight", "2"), "--t-weight: of no use on one pool"),
        (("--swf", "LOG", "--cap-w", "5"), "--cap-w needs --proc-w"),
        (("--swf", "LOG", "--proc-w", "9", "--cap-w", "0"), "--cap-w: Input should be greater"),
        (
            ("--swf", "LOG", "--proc-w", "9", "--idle-w", "5", "--cap-w", "20"),
            "the cap of the pool, 20 W, must be above the idle power that counts, 20 W",
        ),
        (
            ("--clusters", "p1", "--coefficients", "MODELS", "--cap-w", "5"),
            "the cap of cluster p1, 5 W, must be above the idle power that counts, ",
        ),
        (
            ("--clusters", "p1,p2", "--coefficients", "MODELS", "--region-cap-w", "5"),
            "the cap of the region, 5 W, must be above the idle power that counts, ",
        ),
        (
            (
                *("--clusters", "p1", "--coefficients", "MODELS", "--region-cap-w", "1e6"),
                *("--policy", "easy", "--policy", "slurm"),
            ),
            "policy slurm keeps caps of single clusters alone, and the region has one: take easy",
        ),
        (
            ("--system", "SYSTEM", "--coefficients", "MODELS", "--no-cap-counts-idle"),
            "--no-cap-counts-idle (cap_counts_idle) is of no use on ",
        ),
        (
            ("--system", "SYSTEM", "--coefficients", "MODELS", "--cap-slowdown", "1.5"),
            "which has no cap: leave it out, or give cap_w or caps there",
        ),
        (("--swf", "LOG", "--policy", "easy", "--policy", "easy"), "--policy: 'easy' is given"),
        (
            ("--clusters", "p1", "--coefficients", "MODELS", "--seed", "1", "--seed", "1"),
            "--seed: '1' is given twice: leave one out",
        ),
        (
            ("--clusters", "p1", "--coefficients", "MODELS", "--response-price", "2"),
            "--response-price is of the policy look-ahead alone: leave it out",
        ),
        (
            ("--clusters", "p1", "--coefficients", "MODELS", "--threshold", "0.35"),
            "--threshold is of priority-inc-v and look-ahead alone: leave it out",
        ),
        (("--clusters", "p1", "--region-cap-w", "-5"), "--region-cap-w: Input should be greater"),
        (("--swf", "LOG", "--policy", "sjf", "--policy", "easy", "--jobs-csv", "x"), "one policy"),
        (("--clusters", "p1"), "--coefficients is needed"),
        (("--clusters", "p9", "--coefficients", "MODELS"), "p9: the built-in clusters"),
        (("--clusters", "p1", "--coefficients", "MODELS"), "knows no module normal"),
        (("--clusters", "p1", "--coefficients", "EMPTY"), "holds no *_coefficients.csv"),
        (("--clusters", "p1", "--procs", "4"), "--procs: of no use on clusters"),
        (("--clusters", "p1", "--system", "SYSTEM"), "leave out --clusters"),
        (("--system", "SYSTEM", "--coefficients", "MODELS", "--mix", "odd"), "--mix must be"),
    ],
)
def test_what_cannot_be_played_ends_in_one_line_that_says_why(
    options: tuple[str, ...], problem: str, log: Path, models: Path, system: Path, tmp_path: Path
) -> None:
    paths = {"LOG": log, "MODELS": models, "SYSTEM": system, "EMPTY": tmp_path}
    done = coplace_simulate(*(paths.get(option, option) for option in options))
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert problem in done.stderr


@needs_data
def test_the_papers_system_comes_to_what_the_paper_says_of_its_makespan() -> None:
    done = coplace_simulate(
        *("--clusters", "p1,p2", "--coefficients", DATA / "eamc", "--workers", 2),
        *("--policy", "min-runtime", "--policy", "priority-inc-v"),
    )
    assert done.exit_code == 0, done.output
    rows = [line.split("│") for line in done.stdout.splitlines() if "cirne uniform" in line]
    assert len(rows) == 2
    assert all(10 * 24 < float(row[3]) < 15 * 24 for row in rows)


@pytest.mark.parametrize("played_on", ["pool", "clusters"])
def test_hostile_options_beside_usable_ones_end_in_one_line(
    played_on: str,
    log: Path,
    models: Path,
    system: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    usable = {
        "pool": ("--swf", log),
        "clusters": ("--system", system, "--coefficients", models, "--workload", log),
    }[played_on]
    commands: Any = main.get_command(app)
    attacks = (
        ["simulate", *map(str, usable), *given(option, value)]
        for option, values in options_of(commands.commands["simulate"])
        for value in values
    )
    assert not problems_of(attacks)


def test_slurm_looks_for_backfill_as_often_as_it_is_told(log: Path, tmp_path: Path) -> None:
    """Job 15 could start at 2 s, before 13 does at 10 s; else it waits for the end of that."""
    for options, expected in (((), "30"), (("--bf-interval-s", "1"), "2")):
        path = tmp_path / "jobs.csv"
        done = coplace_simulate("--swf", log, "--policy", "slurm", "--jobs-csv", path, *options)
        assert done.exit_code == 0, done.output
        assert {row["job_id"]: row["start_s"] for row in read(path)}["15"] == expected

"""`coplace simulate` on small files and on the published ones."""

import json
import re
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from typer import main
from typer.testing import Result

from cli.main import app
from lab.papers.published_data import DATA
from lab.simulation import plots
from tests.support.data import needs_data
from tests.unit.cli.command_line import coplace
from tests.unit.cli.hostile import given, options_of, problems_of, write_files
from tests.unit.lab.simulate.files import write_log, write_models
from tests.unit.services.energy.files import read

IDLE = "--proc-w 100 --idle-w 30"
ON_CLUSTERS = "--system SYSTEM --coefficients MODELS"
Simulate = Callable[[str], Result]


@pytest.fixture
def system(tmp_path: Path) -> Path:
    path = tmp_path / "SYSTEM"
    clusters = [f"  - {{name: {m}, module: {m}, nodes: 128}}" for m in ("left", "right")]
    path.write_text("\n".join(["clusters:", *clusters]))
    return path


@pytest.fixture
def simulate(system: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Simulate:
    """In a folder where LOG, MODELS, SYSTEM and EMPTY are what they say."""
    monkeypatch.chdir(tmp_path)
    write_log(tmp_path / "LOG", "; MaxProcs: 4\n", "oops\n")
    write_models(tmp_path / "MODELS", "left", "right")
    (tmp_path / "EMPTY").mkdir()
    return lambda options: coplace("simulate", *options.split())


def test_a_log_is_played_and_its_jobs_written(simulate: Simulate, tmp_path: Path) -> None:
    done = simulate("--swf LOG --policy easy --jobs-csv jobs.csv")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "jobs.csv").read_text().splitlines() == [
        "job_id,submit_s,start_s,end_s,procs",
        "11,0,0,10,3",
        "13,1,10,30,4",
        "15,2,2,7,1",
        "19,40,40,65,2",
    ]
    assert "1 left out: line without 18 fields" in done.stderr
    assert "1 left out: more processors than the machine has" in done.stderr
    assert "LOG, 4 processors" in done.stdout
    assert re.search(r"easy │ +4 │", done.stdout)


@pytest.mark.parametrize(
    ("options", "starts"),
    [
        ("--policy fcfs", {11: 0, 13: 10, 15: 30, 19: 40}),
        ("--runtimes predicted", {11: 0, 13: 10, 15: 2, 19: 40}),
        ("--procs 9", {11: 0, 13: 1, 15: 2, 17: 21, 19: 40}),
        # Slurm looks for backfill every 30 s, unless it is set to look before 13 starts.
        ("--policy slurm", {11: 0, 13: 10, 15: 30, 19: 40}),
        ("--policy slurm --bf-interval-s 1", {11: 0, 13: 10, 15: 2, 19: 40}),
        ("--cap-w 300 --proc-w 100", {11: 0, 15: 10, 19: 40}),
        # 11 has 3 of 4 processors and 15 the last: 400 W, of which 280 W are beyond idle.
        ("--proc-w 100 --idle-w 30 --cap-w 399", {11: 0, 15: 10, 19: 40}),
        ("--proc-w 100 --idle-w 30 --cap-w 400", {11: 0, 13: 10, 15: 2, 19: 40}),
        ("--proc-w 100 --idle-w 30 --cap-w 279 --no-cap-counts-idle", {11: 0, 15: 10, 19: 40}),
        (
            "--proc-w 100 --idle-w 30 --cap-w 280 --no-cap-counts-idle",
            {11: 0, 13: 10, 15: 2, 19: 40},
        ),
    ],
)
def test_jobs_start_as_options_say(
    options: str, starts: dict[int, int], simulate: Simulate, tmp_path: Path
) -> None:
    done = simulate(f"--swf LOG --jobs-csv jobs.csv {options}")
    assert done.exit_code == 0, done.output
    found = {int(row["job_id"]): int(row["start_s"]) for row in read(tmp_path / "jobs.csv")}
    assert found == starts


def test_jobs_run_past_their_walltime_when_nobody_kills_them(
    simulate: Simulate, tmp_path: Path
) -> None:
    simulate("--swf LOG --no-kill --jobs-csv jobs.csv")
    assert read(tmp_path / "jobs.csv")[-1]["end_s"] == "70"


def test_a_run_is_written_with_its_summary_and_pictures_and_through_no_link(
    simulate: Simulate, tmp_path: Path
) -> None:
    names = {"summary.json", "jobs.csv", "load.png", "gantt.png", "power.png"}
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    out.mkdir()
    elsewhere.write_text("precious")
    for name in names:
        (out / name).symlink_to(elsewhere)
    simulate("--swf LOG --proc-w 100 --idle-w 10 --out out")
    assert elsewhere.read_text() == "precious"
    assert not any(path.is_symlink() for path in out.iterdir())
    assert {path.name for path in out.iterdir()} == names
    summary = json.loads((out / "summary.json").read_text())
    assert summary["makespan_s"] == 65
    assert summary["wait_s"]["mean"] == pytest.approx(9 / 4)
    assert summary["busy_energy_j"] == 100 * (30 + 80 + 5 + 50)
    assert summary["idle_energy_j"] == 10 * (4 * 65 - 165)
    assert [row["cluster"] for row in read(out / "jobs.csv")] == ["procs"] * 4


def test_pictures_that_would_show_nothing_are_not_there(
    simulate: Simulate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for name in ("gantt.png", "power.png"):
        (out / name).touch()
    monkeypatch.setattr(plots, "LARGEST_GANTT", 3)
    simulate("--swf LOG --out out")
    assert {path.name for path in out.iterdir()} == {"summary.json", "jobs.csv", "load.png"}


def test_several_policies_are_compared(simulate: Simulate, tmp_path: Path) -> None:
    policies = ("fcfs", "sjf", "easy", "conservative")
    options = " ".join(f"--policy {policy}" for policy in policies)
    done = simulate(f"--swf LOG {options} --workers 1 --out out")
    assert done.exit_code == 0, done.output
    rows = read(tmp_path / "out" / "comparison.csv")
    assert [row["policy"] for row in rows] == list(policies)
    assert float(rows[0]["wait_s_mean"]) == pytest.approx((9 + 28) / 4)
    assert (tmp_path / "out" / "comparison.png").exists()
    assert all(policy in done.stdout for policy in policies)


def test_jobs_of_clusters_are_played_and_compared(simulate: Simulate, tmp_path: Path) -> None:
    varied = "--t-weight 1 --t-weight 1.5 --mix uniform --mix 0.5 --seed 1 --seed 2"
    policies = "--policy base --policy priority-inc"
    done = simulate(f"{ON_CLUSTERS} --jobs 15 --workers 1 {policies} {varied} --out out")
    assert done.exit_code == 0, done.output
    rows = read(tmp_path / "out" / "comparison.csv")
    assert len(rows) == 2 * 2 * 2 * 2
    assert {row["mix"] for row in rows} == {"uniform", "0.5"}
    assert all(float(row["busy_energy_j"]) > 0 for row in rows)
    assert "cirne 50%, priority-inc w=1.5" in done.stdout
    assert "±" in done.stdout


def test_one_case_on_clusters_is_written_in_full(simulate: Simulate, tmp_path: Path) -> None:
    done = simulate(f"{ON_CLUSTERS} --workload LOG --policy reorder --out out")
    assert done.exit_code == 0, done.output
    rows = read(tmp_path / "out" / "jobs.csv")
    assert [row["job_id"] for row in rows] == ["11", "13", "15", "17", "19"]
    assert {row["freq_ghz"] for row in rows} <= {"1.0", "2.0"}
    assert (tmp_path / "out" / "gantt.png").exists()


def test_clusters_of_a_site_keep_to_its_cap_together(
    simulate: Simulate, system: Path, tmp_path: Path
) -> None:
    """Jobs of 3 and 4 nodes run side by side on two clusters; the cap leaves watts for 4 nodes."""
    clusters = system.read_text().replace("128}", "4, site: north}")
    highest, starts = {}, {}
    for name, caps in (("free", ""), ("capped", "\ncaps: {north: 1200}")):
        system.write_text(clusters + caps)
        done = simulate(f"{ON_CLUSTERS} --workload LOG --out {name}")
        assert done.exit_code == 0, done.output
        summary = json.loads((tmp_path / name / "summary.json").read_text())
        highest[name] = summary["highest_of_cap"], summary["above_cap_s"]
        jobs = read(tmp_path / name / "jobs.csv")
        [starts[name]] = [float(row["start_s"]) for row in jobs if row["job_id"] == "13"]
    assert starts["free"] == 1 < starts["capped"]
    assert highest["free"] == (None, None)
    share, above_s = highest["capped"]
    assert 0.7 < share <= 1
    assert above_s == 0


@pytest.mark.parametrize(
    ("node", "of_all"), [("cap_w: 90000", ""), ("site: north", "\ncaps: {north: 90000}")]
)
def test_what_is_of_caps_is_taken_where_the_system_has_one(
    node: str, of_all: str, simulate: Simulate, system: Path
) -> None:
    system.write_text(system.read_text().replace("128}", f"128, {node}}}") + of_all)
    done = simulate(f"{ON_CLUSTERS} --workload LOG --no-cap-counts-idle --cap-slowdown 1.5")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("", "--swf is needed"),
        ("--swf none.swf", "none.swf"),
        ("--swf NAMELESS", "give --procs"),
        ("--swf LOG --policy reorder", "needs applications"),
        ("--swf LOG --t-weight 2", "--t-weight: of no use on one pool"),
        ("--swf LOG --no-caps", "--no-caps: of no use on one pool"),
        ("--swf LOG --cap-w 5", "--cap-w needs --proc-w"),
        (
            "--swf LOG --procs 1 --proc-w 100 --cap-w 50",
            "4 for more processors than the machine has, 1 for more power than the cap, alone",
        ),
        (
            "--swf LOG --proc-w 9 --idle-w 5 --cap-w 20",
            "the cap of the pool, 20 W, must be above the idle power that counts, 20 W",
        ),
        (
            "--clusters p1 --coefficients MODELS --cap-w 5",
            "the cap of cluster p1, 5 W, must be above the idle power that counts, ",
        ),
        (
            "--clusters p1,p2 --coefficients MODELS --region-cap-w 5",
            "the cap of the region, 5 W, must be above the idle power that counts, ",
        ),
        (
            "--clusters p1 --coefficients MODELS --region-cap-w 1e6 --policy easy --policy slurm",
            "policy slurm keeps caps of single clusters alone, and the region has one: take easy",
        ),
        (
            f"{ON_CLUSTERS} --no-cap-counts-idle",
            "--no-cap-counts-idle (cap_counts_idle) is of no use on ",
        ),
        (
            f"{ON_CLUSTERS} --cap-slowdown 1.5",
            "which has no cap: leave it out, or give cap_w or caps there",
        ),
        (
            "--swf LOG --policy sjf --runtimes predicted",
            "is of no use to sjf, which does not",
        ),
        (f"{ON_CLUSTERS} --discipline slurm", "--discipline is of no use to easy"),
        (f"{ON_CLUSTERS} --policy base --discipline fcfs", "--discipline is easy or slurm"),
        (f"{ON_CLUSTERS} --policy base --bf-records 9", "is of the policy slurm alone"),
        ("--swf LOG --passing-share 0.1", "--passing-share is of no use without --runtimes"),
        (
            "--from-kafka --runtimes predicted --discipline slurm",
            "--runtimes predicted is of no use under --discipline slurm",
        ),
        (
            "--from-kafka --runtimes requested --passing-share 0.1",
            "--passing-share is of no use without --runtimes predicted",
        ),
        (f"{ON_CLUSTERS} --seed 1 --seed 1", "--seed: '1' is given twice: leave one out"),
        (f"{ON_CLUSTERS} --response-price 2", "--response-price is of the policy look-ahead alone"),
        (f"{ON_CLUSTERS} --threshold 0.35", "--threshold is of priority-inc-v and look-ahead"),
        ("--swf LOG --policy sjf --policy easy --jobs-csv x", "one policy"),
        ("--clusters p1", "--coefficients is needed"),
        ("--clusters p9 --coefficients MODELS", "p9: the built-in clusters"),
        ("--clusters p1 --coefficients MODELS", "knows no module normal"),
        ("--clusters p1 --coefficients EMPTY", "holds no *_coefficients.csv"),
        ("--clusters p1 --procs 4", "--procs: of no use on clusters"),
        ("--clusters p1 --system SYSTEM", "leave out --clusters"),
    ],
)
def test_what_cannot_be_played_ends_in_one_line_that_says_why(
    options: str, problem: str, simulate: Simulate, tmp_path: Path
) -> None:
    write_log(tmp_path / "NAMELESS")
    done = simulate(options)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert problem in done.stderr
    assert "<" not in done.stderr


@needs_data
def test_the_papers_system_results_in_what_the_paper_says_of_its_makespan() -> None:
    done = coplace(
        *("simulate", "--clusters", "p1,p2", "--coefficients", DATA / "eamc", "--workers", 2),
        *("--policy", "min-runtime", "--policy", "priority-inc-v"),
    )
    assert done.exit_code == 0, done.output
    rows = [line.split("│") for line in done.stdout.splitlines() if "cirne uniform" in line]
    assert len(rows) == 2
    assert all(10 * 24 < float(row[3]) < 15 * 24 for row in rows)


@pytest.mark.usefixtures("simulate")
@pytest.mark.parametrize("usable", ["--swf LOG", f"{ON_CLUSTERS} --workload LOG"])
@pytest.mark.parametrize("first", range(3))
def test_hostile_options_beside_usable_ones_end_in_one_line(
    usable: str, first: int, tmp_path: Path
) -> None:
    """Each option, a third of them at a time."""
    write_files(tmp_path)
    commands: Any = main.get_command(app)
    options = islice(options_of(commands.commands["simulate"]), first, None, 3)
    attacks = (
        ["simulate", *usable.split(), *given(option, value)]
        for option, values in options
        for value in values
    )
    assert not problems_of(attacks)

"""`coplace simulate --eurora`: instances beside their published results."""

from itertools import groupby
from pathlib import Path

import pytest
from typer.testing import Result

from lab.papers.published_data import DATA
from lab.simulation.capping import CappingMethod
from tests.support.data import needs_data
from tests.unit.cli.command_line import coplace, refusal, said

UNIT = "0;8;0;0;4194304#"
LINE = (
    f"7;x;y;debug;2014-03-31 00:00:00__{UNIT}__2014-03-31 00:00:09;2014-03-31 00:00:59;1;8;4;00:10"
)
# Two jobs of 40 W and 50 s on one node, the second 10 s later.
FILES = {
    "eurora": f"{LINE};NA;NA;COMPLETED;0\n{LINE};NA;NA;COMPLETED;0\n".replace(
        "\n7;x;y;debug;2014-03-31 00:00:00__", "\n8;x;y;debug;2014-03-31 00:00:10__"
    ),
    "nodes": "0 16 0 2 33554432 0\n",
    "queues": "debug 3600\n",
    "power": "job_id,power_w,cpi\n7,40,2.0\n8,40,0.5\n",
}
BESIDE = "beside eurora or above it: keep the published folders, or give"
PLAYED = [part for name in FILES for part in (f"--{name}", name)]


@needs_data
def test_an_instance_is_beside_its_published_results() -> None:
    path = DATA / "eurora" / "historical" / "hist_100_20140331_110904.log_crypt"
    found = said("simulate", "--eurora", path)
    assert "EASY, here" in found
    assert "BF, published" in found
    assert found.count("29,167") == 3


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of these files, to be in."""
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    return tmp_path


def play(options: str) -> Result:
    return coplace("simulate", *PLAYED, *options.split())


def jobs(options: str) -> list[str]:
    """The lines of the jobs that were played."""
    found = play(f"{options} --jobs-csv jobs.csv")
    assert found.exit_code == 0, found.output
    header, *lines = Path("jobs.csv").read_text().splitlines()
    assert header == "job_id,submit_s,start_s,end_s"
    return lines


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("--eurora empty --kill", "--kill: of no use on Eurora"),
        ("--eurora empty --procs 4", "--procs: of no use on Eurora"),
        ("--eurora empty --cap-w 9", "--cap-w: of no use on Eurora"),
        ("--eurora empty", "holds no instance"),
        ("--eurora empty --cap 90", "is a folder, and a cap is of one instance: give one of its"),
        ("--eurora none.log", "there is no file or folder none.log"),
        ("--eurora none.log --cap 90", "there is no file or folder none.log"),
        ("--eurora eurora", f"no nodes_64.csv and no power_predictions.csv {BESIDE}"),
        ("--eurora eurora --nodes n", f"no power_predictions.csv {BESIDE} --power"),
        ("--eurora eurora --power p", f"no nodes_64.csv {BESIDE} --nodes"),
        ("--eurora eurora --cap 9 --nodes n --power p", f"no queues.txt {BESIDE} --queues"),
    ],
)
def test_what_is_no_instance_with_all_that_it_needs_is_refused(
    options: str, problem: str, folder: Path
) -> None:
    (folder / "empty").mkdir()
    assert problem in refusal("simulate", *options.split())


@pytest.mark.parametrize(
    ("policy", "second"),
    [
        ("ls", "8,10,50,100"),
        ("bf", "8,10,50,100"),
        ("hybrid", "8,10,50,100"),
        ("dyn-share", "8,10,10,"),
        ("hybrid-rapl", "8,10,10,"),
        # 20 of 40 W, and a CPI below 1 counts as 1: twice as long.
        ("simple --slowdown cpi", "8,10,10,110"),
    ],
)
def test_a_capped_schedule_is_written(policy: str, second: str) -> None:
    first, other = jobs(f"--cap 60 --policy {policy}")
    assert first.startswith("7,0,0,")
    assert other.startswith(second)


@pytest.mark.parametrize("options", ["--power-sd 0.25", ""])
def test_the_second_job_waits_where_both_may_draw_more_than_the_cap(
    options: str, folder: Path
) -> None:
    """80 W are predicted of both; one time in ten they draw 101.5 W or more."""
    (folder / "power").write_text("job_id,power_w,power_sd\n7,40,0.25\n8,40,0.25\n")
    for cap_w, start_s in ((105, 10), (100, 50)):
        found = jobs(f"--cap {cap_w} --policy hybrid --cap-risk 0.1 {options}")
        assert found[1].startswith(f"8,10,{start_s},"), cap_w


def schedule(period: str) -> str:
    """The option of a cap of one period."""
    Path("cap.yaml").write_text(f"periods:\n- {{{period}}}\n")
    return "--cap-schedule cap.yaml"


def test_a_cap_may_fall_and_return() -> None:
    given = schedule('from: "2014-03-31T00:00:20Z", until: "2014-03-31T00:01:40Z", watts: 40')
    # The first may run for 600 s, so that at 20 s there is nothing for the second until it ends.
    assert jobs(f"{given} --policy bf") == ["7,0,0,50", "8,10,50,100"]


NEVER = "cap.yaml: no period falls into the time of eurora, 2014-03-31T00:00:00Z"


@pytest.mark.parametrize(
    ("period", "problem"),
    [
        ("from: 2014-03-31, watts: .nan", "periods.0.watts: Input should be a finite number"),
        ("from: 2014-03-31, watts: 0", "periods.0.watts: Input should be greater than or equal to"),
        ("from: 2014-03-31, watts: 13", "job 7 (number 1 of 2) draws 13.334 W at least under"),
        ("from: 2014-03-31, until: 2014-03-30, watts: 39", "a period must end after it begins"),
        ("from: now, watts: 60", NEVER),
        ("from: 2020-01-01, watts: 60", NEVER),
        ("from: 2014-03-30, until: 2014-03-31, watts: 60", NEVER),
        # The second may run until 610 s.
        ("from: '2014-03-31T00:10:10Z', watts: 60", NEVER),
    ],
)
def test_a_schedule_that_lets_nothing_start_or_caps_nothing_is_refused(
    period: str, problem: str, folder: Path
) -> None:
    found = play(f"{schedule(period)} --jobs-csv jobs.csv")
    assert problem in found.stderr
    assert not (folder / "jobs.csv").exists()
    both = play("--cap-schedule cap.yaml --cap 90")
    assert "give one of --cap and --cap-schedule" in both.stderr


@pytest.mark.parametrize(
    "period",
    [
        "from: '2014-03-31T00:10:09Z', watts: 60",
        "from: 2014-03-30, until: '2014-03-31T00:00:01Z', watts: 60",
    ],
)
def test_a_schedule_that_caps_the_instance_for_a_moment_is_taken(period: str) -> None:
    assert len(jobs(f"{schedule(period)} --policy dvfs")) == 2


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("--cap 0", "job 7 (number 1 of 2) draws 13.334 W at least under hybrid-rapl: a cap"),
        ("--cap 0 --policy hybrid", "draws 40 W at least under hybrid: a cap of 0 W"),
        ("--cap 39.9 --policy hybrid", "a cap of 39.9 W never lets it start"),
        ("--cap nan", "--cap: Input should be a finite number in the digits 0 to 9"),
        ("--cap -1", "--cap: Input should be greater than or equal to 0"),
        ("--policy ls", "--policy needs --cap"),
        ("--cap 90 --policy fcfs", "--policy: Input should be 'ls'"),
        ("--cap 90 --cap 80", "--cap: Input should be a valid number"),
        ("--cap 90 --cap-risk 0.6", "be less than or equal to 0.5"),
        ("--cap 90 --cap-risk 0.1 --policy hybrid", "must be a CSV of job_id and"),
        ("--cap 90 --cap-risk 0.1 --power-sd nan", "--power-sd"),
        ("--cap 90 --cap-margin 0.1 --policy dvfs", "are of no use to dvfs"),
        ("--cap 90 --cap-margin 0.1", "are of no use to hybrid-rapl: say --policy"),
        ("--cap 41 --cap-margin 0.1 --policy ls", "a cap of 36.9 W never lets it"),
        ("--cap-risk 0.1", "--cap-risk needs --cap"),
        ("--draws-csv d.csv", "--draws-csv needs --cap"),
        ("", "--queues needs --cap: without one instances are compared"),
        (
            "--cap 90 --jobs-csv d.csv --draws-csv d.csv",
            "--jobs-csv and --draws-csv must be two files",
        ),
        ("--cap 90 --power-sd 0.1", "--power-sd is of no use without --cap-risk below 0.5"),
        (
            "--cap 90 --policy ls --slowdown cpi",
            "--slowdown is of no use to ls, whose jobs draw what is predicted: leave it out",
        ),
        ("--cap 90 --policy dec --slowdown mixed", "--slowdown is of no use to dec"),
        ("--cap 90 --slowdown 2", "--slowdown must be a factor from 0 to 1, mixed or cpi"),
    ],
)
def test_what_no_cap_can_mean_is_refused(options: str, problem: str) -> None:
    found = play(options)
    assert found.exit_code != 0
    assert problem in found.stderr


CPI = "--policy simple --slowdown cpi"


@pytest.mark.parametrize(
    ("name", "content", "problem", "options"),
    [
        ("power", "job_id,power_w\n7,nan\n", "refused: job 7 has a power of nan W", ""),
        ("power", "job_id,power_w\n7,-1\n", "refused: job 7 has a power of -1.0 W", ""),
        ("power", "job_id,power_w\n7,1\n7,2\n", "refused: job 7 is listed twice in ", ""),
        ("power", "job_id,power_w\n7,nan\n8,inf\n", "error: job 7 has a power of nan W", ""),
        ("power", "job_id\n7\n", "must be a CSV of job_id and power_w", ""),
        ("power", "job_id,power_w,cpi\n7,40,1\n", "job 8 has no cpi", CPI),
        ("queues", "debug\n", "must be a queue and whole seconds above 0", ""),
        ("queues", "debug 0\n", "must be a queue and whole seconds above 0", ""),
        ("queues", "", "must list queues", ""),
        ("queues", "longpar 9\n", "job 7 is of queue debug, known are ['longpar']", ""),
        ("nodes", "0 16 0 2 33554432\n", "must be id cores gpus mics memory reserved", ""),
        ("nodes", "0 4 0 2 33554432 0\n", "job 7 needs 1 units", ""),
        ("eurora", LINE.replace(";debug", ""), "eurora:1: is not a job of Eurora", ""),
    ],
)
def test_a_file_that_does_not_say_it_is_refused(
    name: str, content: str, problem: str, options: str, folder: Path
) -> None:
    (folder / name).write_text(content)
    found = play(f"--cap 90 {options}")
    assert found.exit_code == 1
    assert problem in found.stderr


def test_jobs_that_cannot_be_played_are_refused_by_name_and_the_others_are_played(
    folder: Path,
) -> None:
    """Of four jobs one draws more than the cap, of one nobody knows what it draws."""
    hot, unknown = (LINE.replace("7;x;", f"{each};x;") for each in ("hot", "nan"))
    (folder / "eurora").write_text(f"{hot};NA\n{unknown};NA\n{FILES['eurora']}")
    (folder / "power").write_text("job_id,power_w\nhot,61\n7,40\nnan,nan\n8,40\nelse,nan\n")
    found = play("--cap 60 --policy bf --jobs-csv jobs.csv")
    assert found.exit_code == 1
    assert isinstance(found.exception, SystemExit)
    assert [line for line in found.stderr.splitlines() if line] == [
        "refused: job nan has a power of nan W in power:4",
        "refused: job hot draws 61 W at least under bf: a cap of 60 W never lets it start",
    ]
    assert Path("jobs.csv").read_text().splitlines()[1:] == ["7,0,0,50", "8,10,50,100"]
    rows = [line.strip(" │").split("│") for line in found.stdout.splitlines() if "│" in line]
    assert [[cell.strip() for cell in row] for row in rows[:2]] == [
        ["jobs played", "2"],
        ["jobs refused", "2"],
    ]


def test_what_is_said_of_other_jobs_does_not_matter(folder: Path) -> None:
    (folder / "power").write_text("job_id,power_w\n9,nan\n9,-1\n10\n7,40\n,5\n11,never\n")
    found = play("--cap 60")
    assert found.exit_code == 0, found.output
    assert "refused: " not in found.stderr


@pytest.mark.parametrize(
    ("column", "counting"), [("cpi", CPI), ("power_sd", "--policy hybrid --cap-risk 0.1")]
)
def test_a_job_whose_row_is_wrong_in_what_counts_is_refused(
    column: str, counting: str, folder: Path
) -> None:
    (folder / "power").write_text(f"job_id,power_w,{column}\n7,40,nan\n8,40,1\n")
    found = play(f"--cap 200 {counting}")
    assert found.exit_code == 1
    assert found.stderr.startswith("refused: job 7 has a ")
    assert play("--cap 200").exit_code == 0


def test_where_every_job_is_refused_nothing_is_written() -> None:
    found = play("--cap 39 --policy ls --jobs-csv jobs.csv")
    assert found.exit_code == 1
    assert "job 7 (number 1 of 2) draws 40 W at least under ls" in found.stderr
    assert "refused: " not in found.stderr
    assert not Path("jobs.csv").exists()


@pytest.mark.parametrize("policy", [each.value for each in CappingMethod])
def test_draws_alone_show_that_the_cap_is_held(policy: str, folder: Path) -> None:
    """Three jobs of 40 W under 60 W: by the file of draws, with nothing that played them."""
    third = LINE.replace("7;x;", "9;x;").replace("00:00:00__", "00:00:20__")
    (folder / "eurora").write_text(f"{FILES['eurora']}{third};NA\n")
    ran = jobs(f"--cap 60 --policy {policy} --draws-csv draws.csv")
    header, *rows = (line.split(",") for line in Path("draws.csv").read_text().splitlines())
    assert header == ["job_id", "from_s", "power_w"]
    changes = sorted((float(from_s), float(watts), job_id) for job_id, from_s, watts in rows)
    now_w: dict[str, float] = {}
    highest_w = 0.0
    for time_s, at_once in groupby(changes, key=lambda change: change[0]):
        now_w.update({job_id: watts for _, watts, job_id in at_once})
        assert sum(now_w.values()) <= 60, time_s
        highest_w = max(highest_w, sum(now_w.values()))
    assert highest_w >= 40
    assert set(now_w.values()) == {0.0}
    for job_id, _, start_s, end_s in (line.split(",") for line in ran):
        own = [(from_s, watts) for other, from_s, watts in rows if other == job_id]
        assert own[0][0] == start_s
        assert own[-1] == (end_s, "0")


def test_draws_are_those_of_each_moment() -> None:
    jobs("--cap 60 --policy dyn-share --slowdown 0 --draws-csv draws.csv")
    assert Path("draws.csv").read_text().splitlines()[1:] == [
        *("7,0,40", "7,10,30", "7,50,0"),
        *("8,10,30", "8,50,40", "8,60,0"),
    ]

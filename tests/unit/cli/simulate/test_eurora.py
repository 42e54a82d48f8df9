"""`coplace simulate --eurora`: instances beside their published results."""

from itertools import groupby
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli.main import app
from shared.simulation.capping import CappingMethod
from tests.support.data import DATA, needs_data

RUNNER = CliRunner()
FOLDER = DATA / "eurora"


@needs_data
def test_an_instance_stands_beside_its_published_results() -> None:
    path = FOLDER / "historical" / "hist_100_20140331_110904.log_crypt"
    found = RUNNER.invoke(app, ["simulate", "--eurora", str(path)])
    assert found.exit_code == 0
    assert "EASY, here" in found.output
    assert "BF, published" in found.output
    assert found.output.count("29,167") == 3


@pytest.mark.parametrize("option", [["--kill"], ["--procs", "4"], ["--cap-w", "9"]])
def test_what_is_of_no_use_there_is_refused(option: list[str], tmp_path: Path) -> None:
    found = RUNNER.invoke(app, ["simulate", "--eurora", str(tmp_path), *option])
    assert found.exit_code != 0
    assert f"{option[0]}: of no use on Eurora" in str(found.exception) + found.output


def test_a_folder_without_instances_is_refused(tmp_path: Path) -> None:
    found = RUNNER.invoke(app, ["simulate", "--eurora", str(tmp_path)])
    assert "holds no instance" in str(found.exception) + found.output


@pytest.mark.parametrize(
    ("options", "missing", "to_give"),
    [
        ((), "no nodes_64.csv and no power_predictions.csv beside", "give --nodes and --power"),
        (("--nodes", "n"), "no power_predictions.csv beside", "give --power"),
        (("--power", "p"), "no nodes_64.csv beside", "give --nodes"),
        (("--cap", "9", "--nodes", "n", "--power", "p"), "no queues.txt beside", "give --queues"),
    ],
)
def test_an_instance_without_what_it_needs_is_refused_with_what_is_missing(
    options: tuple[str, ...], missing: str, to_give: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.log_crypt"
    path.write_text("")
    found = RUNNER.invoke(app, ["simulate", "--eurora", str(path), *options])
    assert f"error: {missing} {path}" in found.output
    assert found.output.rstrip().endswith(to_give)


@pytest.mark.parametrize("options", [(), ("--cap", "90")])
def test_an_instance_that_is_not_there_is_told(options: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "none.log"
    found = RUNNER.invoke(app, ["simulate", "--eurora", str(path), *options])
    assert f"error: there is no file or folder {path}" in found.output


def test_a_cap_of_a_folder_is_refused(tmp_path: Path) -> None:
    found = RUNNER.invoke(app, ["simulate", "--eurora", str(tmp_path), "--cap", "90"])
    assert "is a folder, and a cap is of one instance: give one of its files" in found.output


UNIT = "0;8;0;0;4194304#"
LINE = (
    f"7;x;y;debug;2014-03-31 00:00:00__{UNIT}__2014-03-31 00:00:09;2014-03-31 00:00:59;1;8;4;00:10"
)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Two jobs of 40 W and 50 s on one node, the second 10 s later."""
    later = LINE.replace("7;x;", "8;x;").replace("00:00:00__", "00:00:10__")
    contents = {
        "eurora": f"{LINE};NA;NA;COMPLETED;0\n{later};NA;NA;COMPLETED;0\n",
        "nodes": "0 16 0 2 33554432 0\n",
        "queues": "debug 3600\n",
        "power": "job_id,power_w,cpi\n7,40,2.0\n8,40,0.5\n",
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    return {name: tmp_path / name for name in contents}


def capped(files: dict[str, Path], *options: object) -> Result:
    """Played with these files."""
    given = [part for name, path in files.items() for part in (f"--{name}", str(path))]
    return RUNNER.invoke(app, ["simulate", *given, *map(str, options)])


def told(found: Result) -> str:
    return str(found.exception) + found.output


@pytest.mark.parametrize(
    ("policy", "second"),
    [
        ("ls", "8,10,50,100"),
        ("bf", "8,10,50,100"),
        ("hybrid", "8,10,50,100"),
        ("dyn-share", "8,10,10,"),
        ("hybrid-rapl", "8,10,10,"),
    ],
)
def test_a_capped_schedule_is_written(files: dict[str, Path], policy: str, second: str) -> None:
    out = files["eurora"].parent / "jobs.csv"
    found = capped(files, "--cap", 60, "--policy", policy, "--jobs-csv", out)
    assert found.exit_code == 0, told(found)
    header, first, other = out.read_text().splitlines()
    assert header == "job_id,submit_s,start_s,end_s"
    assert first.startswith("7,0,0,")
    assert other.startswith(second)


@pytest.mark.parametrize("options", [("--power-sd", 0.25), ()])
def test_the_second_job_waits_where_both_may_come_to_more_than_the_cap(
    files: dict[str, Path], options: tuple[object, ...]
) -> None:
    """80 W are predicted of both; one time in ten they draw 101.5 W or more."""
    out = files["eurora"].parent / "jobs.csv"
    files["power"].write_text("job_id,power_w,power_sd\n7,40,0.25\n8,40,0.25\n")
    for cap_w, start_s in ((105, 10), (100, 50)):
        given = ("--cap", cap_w, "--policy", "hybrid", "--cap-risk", 0.1, "--jobs-csv", out)
        found = capped(files, *given, *options)
        assert found.exit_code == 0, told(found)
        assert out.read_text().splitlines()[2].startswith(f"8,10,{start_s},"), cap_w


SCHEDULE = """periods:
- {from: "2014-03-31T00:00:20Z", until: "2014-03-31T00:01:40Z", watts: 40}
"""


def test_a_cap_may_fall_and_come_back(files: dict[str, Path]) -> None:
    out, schedule = files["eurora"].parent / "jobs.csv", files["eurora"].parent / "cap.yaml"
    schedule.write_text(SCHEDULE)
    found = capped(files, "--cap-schedule", schedule, "--policy", "bf", "--jobs-csv", out)
    assert found.exit_code == 0, told(found)
    # The first may run for 600 s, so that at 20 s there is nothing for the second until it ends.
    assert out.read_text().splitlines()[1:] == ["7,0,0,50", "8,10,50,100"]


@pytest.mark.parametrize(
    ("period", "problem"),
    [
        ("watts: .nan", "periods.0.watts: Input should be a finite number"),
        ("watts: 0", "periods.0.watts: Input should be greater than or equal to 1"),
        ("watts: 13", "job 7 (number 1 of 2) draws 13.334 W at least under hybrid-rapl: a cap of"),
        ("until: 2014-03-30, watts: 39", "a period must end after it begins"),
    ],
)
def test_a_schedule_that_lets_nothing_start_or_is_none_is_refused(
    files: dict[str, Path], period: str, problem: str
) -> None:
    schedule = files["eurora"].parent / "cap.yaml"
    schedule.write_text(f"periods:\n- {{from: '2014-03-31', {period}}}\n")
    assert problem in told(capped(files, "--cap-schedule", schedule))
    both = capped(files, "--cap-schedule", schedule, "--cap", 90)
    assert "give one of --cap and --cap-schedule" in told(both)


def test_clocks_per_instruction_slow_jobs_down(files: dict[str, Path]) -> None:
    out = files["eurora"].parent / "jobs.csv"
    options = ("--cap", 60, "--policy", "simple", "--slowdown", "cpi", "--jobs-csv", out)
    assert capped(files, *options).exit_code == 0
    # 20 of 40 W, and a CPI below 1 counts as 1: twice as long.
    assert out.read_text().splitlines()[2] == "8,10,10,110"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--cap", 0), "job 7 (number 1 of 2) draws 13.334 W at least under hybrid-rapl: a cap"),
        (("--cap", 0, "--policy", "hybrid"), "draws 40 W at least under hybrid: a cap of 0 W"),
        (("--cap", 39.9, "--policy", "hybrid"), "a cap of 39.9 W never lets it start"),
        (("--cap", "nan"), "--cap: Input should be a finite number"),
        (("--cap", -1), "--cap: Input should be greater than or equal to 0"),
        (("--policy", "ls"), "--policy needs --cap"),
        (("--cap", 90, "--policy", "fcfs"), "--policy: Input should be 'ls'"),
        (("--cap", 90, "--cap", 80), "--cap: Input should be a valid number"),
        (("--cap", 90, "--cap-risk", 0.6), "be less than or equal to 0.5"),
        (("--cap", 90, "--cap-risk", 0.1, "--policy", "hybrid"), "must be a CSV of job_id and"),
        (("--cap", 90, "--cap-risk", 0.1, "--power-sd", "nan"), "--power-sd"),
        (("--cap", 90, "--cap-margin", 0.1, "--policy", "dvfs"), "are of no use to dvfs"),
        (("--cap", 90, "--cap-margin", 0.1), "are of no use to hybrid-rapl: say --policy"),
        (("--cap", 41, "--cap-margin", 0.1, "--policy", "ls"), "a cap of 36.9 W never lets it"),
        (("--cap-risk", 0.1), "--cap-risk needs --cap"),
        (("--draws-csv", "d.csv"), "--draws-csv needs --cap"),
        ((), "--queues needs --cap: without one instances are compared"),
        (
            ("--cap", 90, "--jobs-csv", "d.csv", "--draws-csv", "d.csv"),
            "--jobs-csv and --draws-csv must be two files",
        ),
        (("--cap", 90, "--power-sd", 0.1), "--power-sd is of no use without --cap-risk below 0.5"),
        (
            ("--cap", 90, "--policy", "ls", "--slowdown", "cpi"),
            "--slowdown is of no use to ls, whose jobs draw what is predicted: leave it out",
        ),
        (("--cap", 90, "--policy", "dec", "--slowdown", "mixed"), "--slowdown is of no use to dec"),
        (("--cap", 90, "--slowdown", "2"), "--slowdown must be a factor from 0 to 1, mixed or cpi"),
    ],
)
def test_what_no_cap_can_mean_is_refused(
    files: dict[str, Path], options: tuple[object, ...], problem: str
) -> None:
    found = capped(files, *options)
    assert found.exit_code != 0
    assert problem in told(found)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("power", "job_id,power_w\n7,nan\n", "refused: job 7 has a power of nan W"),
        ("power", "job_id,power_w\n7,-1\n", "refused: job 7 has a power of -1.0 W"),
        ("power", "job_id,power_w\n7,1\n7,2\n", "refused: job 7 stands twice in "),
        ("power", "job_id,power_w\n7,nan\n8,inf\n", "error: job 7 has a power of nan W"),
        ("power", "job_id\n7\n", "must be a CSV of job_id and power_w"),
        ("queues", "debug\n", "must be a queue and whole seconds above 0"),
        ("queues", "debug 0\n", "must be a queue and whole seconds above 0"),
        ("queues", "", "must list queues"),
        ("queues", "longpar 9\n", "job 7 is of queue debug, known are ['longpar']"),
        ("nodes", "0 16 0 2 33554432\n", "must be id cores gpus mics memory reserved"),
        ("nodes", "0 4 0 2 33554432 0\n", "job 7 needs 1 units"),
        ("eurora", LINE.replace(";debug", ""), "eurora:1: is no job of Eurora"),
    ],
)
def test_a_file_that_does_not_say_it_is_refused(
    files: dict[str, Path], name: str, content: str, problem: str
) -> None:
    files[name].write_text(content)
    found = capped(files, "--cap", 90)
    assert found.exit_code != 0
    assert problem in told(found)


def test_a_job_without_clocks_per_instruction_is_named(files: dict[str, Path]) -> None:
    files["power"].write_text("job_id,power_w,cpi\n7,40,1\n")
    found = capped(files, "--cap", 90, "--policy", "simple", "--slowdown", "cpi")
    assert "job 8 has no cpi" in told(found)


def test_jobs_that_cannot_be_played_are_refused_by_name_and_the_others_are_played(
    files: dict[str, Path],
) -> None:
    """Of four jobs one draws more than the cap, of one nobody knows what it draws."""
    hot, unknown = (LINE.replace("7;x;", f"{each};x;") for each in ("hot", "nan"))
    files["eurora"].write_text(f"{hot};NA\n{unknown};NA\n{files['eurora'].read_text()}")
    files["power"].write_text("job_id,power_w\nhot,61\n7,40\nnan,nan\n8,40\nelse,nan\n")
    out = files["eurora"].parent / "jobs.csv"
    found = capped(files, "--cap", 60, "--policy", "bf", "--jobs-csv", out)
    assert found.exit_code == 1
    assert isinstance(found.exception, SystemExit)
    refused = [line for line in found.stderr.splitlines() if line]
    assert refused == [
        f"refused: job nan has a power of nan W in {files['power']}:4",
        "refused: job hot draws 61 W at least under bf: a cap of 60 W never lets it start",
    ]
    assert out.read_text().splitlines()[1:] == ["7,0,0,50", "8,10,50,100"]
    rows = [line.strip(" │").split("│") for line in found.stdout.splitlines() if "│" in line]
    assert [[cell.strip() for cell in row] for row in rows[:2]] == [
        ["jobs played", "2"],
        ["jobs refused", "2"],
    ]


def test_what_is_said_of_other_jobs_does_not_matter(files: dict[str, Path]) -> None:
    files["power"].write_text("job_id,power_w\n9,nan\n9,-1\n10\n7,40\n,5\n11,never\n")
    found = capped(files, "--cap", 60)
    assert found.exit_code == 0, told(found)
    assert "refused: " not in found.stderr


@pytest.mark.parametrize("column", ["cpi", "power_sd"])
def test_a_job_whose_row_is_wrong_in_what_counts_is_refused(
    files: dict[str, Path], column: str
) -> None:
    counting = {
        "cpi": ("--policy", "simple", "--slowdown", "cpi"),
        "power_sd": ("--policy", "hybrid", "--cap-risk", 0.1),
    }
    files["power"].write_text(f"job_id,power_w,{column}\n7,40,nan\n8,40,1\n")
    found = capped(files, "--cap", 200, *counting[column])
    assert found.exit_code == 1
    assert found.stderr.startswith("refused: job 7 has a ")
    assert capped(files, "--cap", 200).exit_code == 0


def test_where_every_job_is_refused_nothing_is_written(files: dict[str, Path]) -> None:
    out = files["eurora"].parent / "jobs.csv"
    found = capped(files, "--cap", 39, "--policy", "ls", "--jobs-csv", out)
    assert found.exit_code == 1
    assert "job 7 (number 1 of 2) draws 40 W at least under ls" in told(found)
    assert "refused: " not in found.stderr
    assert not out.exists()


@pytest.mark.parametrize(
    ("period", "is_refused"),
    [
        ("from: now, watts: 60", True),
        ("from: 2020-01-01, watts: 60", True),
        ("from: 2014-03-30, until: 2014-03-31, watts: 60", True),
        # The second may run until 610 s.
        ("from: '2014-03-31T00:10:10Z', watts: 60", True),
        ("from: '2014-03-31T00:10:09Z', watts: 60", False),
        ("from: 2014-03-30, until: '2014-03-31T00:00:01Z', watts: 60", False),
    ],
)
def test_a_schedule_that_never_caps_the_instance_is_refused(
    files: dict[str, Path], period: str, is_refused: bool
) -> None:
    schedule, out = (files["eurora"].parent / name for name in ("cap.yaml", "jobs.csv"))
    schedule.write_text(f"periods:\n- {{{period}}}\n")
    found = capped(files, "--cap-schedule", schedule, "--policy", "dvfs", "--jobs-csv", out)
    assert out.exists() is not is_refused
    problem = f"cap.yaml: no period falls into the time of {files['eurora']}, 2014-03-31T00:00:00Z"
    assert (problem in told(found)) is is_refused


@pytest.mark.parametrize("policy", [each.value for each in CappingMethod])
def test_draws_alone_show_that_the_cap_is_held(files: dict[str, Path], policy: str) -> None:
    """Three jobs of 40 W under 60 W: by the file of draws, with nothing that played them."""
    third = LINE.replace("7;x;", "9;x;").replace("00:00:00__", "00:00:20__")
    files["eurora"].write_text(f"{files['eurora'].read_text()}{third};NA\n")
    jobs, draws = (files["eurora"].parent / name for name in ("jobs.csv", "draws.csv"))
    given = ("--cap", 60, "--policy", policy, "--jobs-csv", jobs, "--draws-csv", draws)
    found = capped(files, *given)
    assert found.exit_code == 0, told(found)
    header, *rows = (line.split(",") for line in draws.read_text().splitlines())
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
    for job_id, _, start_s, end_s in (line.split(",") for line in jobs.read_text().split()[1:]):
        own = [(from_s, watts) for other, from_s, watts in rows if other == job_id]
        assert own[0][0] == start_s
        assert own[-1] == (end_s, "0")


def test_draws_are_those_of_each_moment(files: dict[str, Path]) -> None:
    out = files["eurora"].parent / "draws.csv"
    given = ("--cap", 60, "--policy", "dyn-share", "--slowdown", 0, "--draws-csv", out)
    assert capped(files, *given).exit_code == 0
    assert out.read_text().splitlines()[1:] == [
        *("7,0,40", "7,10,30", "7,50,0"),
        *("8,10,30", "8,50,40", "8,60,0"),
    ]

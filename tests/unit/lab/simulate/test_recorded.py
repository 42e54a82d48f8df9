"""`coplace simulate --recorded` on a small record."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from coplace.v1.placement_pb2 import PlacementDecided
from typer.testing import Result

from cli.times import format_utc
from lab.simulation import plots
from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.eamc_policy import Policy
from shared.domain.runtimes import Runtimes
from shared.replay.inputs import RecordedInputs
from shared.replay.rules import RULES, write_rules
from tests.unit.cli.command_line import coplace
from tests.unit.lab.simulate.files import write_record
from tests.unit.services.energy.files import read
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import T0_US
from tests.unit.shared.replay.records import recorded

Play = Callable[[str], Result]
Record = tuple[RecordedInputs, list[PlacementDecided]]


@pytest.fixture(scope="module")
def record() -> Record:
    """Six jobs, of which one has no end."""
    jobs = [
        region.submitted(f"j{n}", T0_US + n * 10**6, nodes=1 + n % 3, app_id=region.APPS[n])
        for n in range(6)
    ]
    return recorded(jobs, {f"j{n}": 100.0 + n for n in range(5)})


@pytest.fixture
def play(record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    """In the folder of the record; pictures are blank: of so many cases they take seconds."""
    monkeypatch.chdir(tmp_path)
    for picture in ("load", "gantt", "power", "comparison"):
        monkeypatch.setattr(plots, picture, lambda *given: given[-1].touch())
    file = write_record(tmp_path, *record)
    return lambda options: coplace("simulate", "--recorded", file, *options.split())


def test_the_record_is_replayed_and_played_under_its_own_rules(play: Play) -> None:
    done = play("")
    assert done.exit_code == 0, done.output
    assert re.search(r"replay: 6 of 6 starts equal, (\d+) of \1 decisions to the byte", done.stdout)
    assert "what-if under the same rules: 6 of 6 starts equal" in done.stdout
    assert "5 jobs, without 1 whose end is not in the record" in done.stdout
    rows = [line for line in done.stdout.splitlines() if line.startswith("│")]
    assert len(rows) == 2


def test_what_is_whole_of_broken_files_is_played_and_all_else_is_named(
    play: Play, record: Record, tmp_path: Path
) -> None:
    inputs, decided = tmp_path / "placement.inputs.jsonl", tmp_path / "decisions.jsonl"
    first, *others = inputs.read_text().splitlines()
    tomorrow = first.replace("coplace.v1.ClusterDeclared", "coplace.v1.OfTomorrow")
    inputs.write_text("\n".join([first, tomorrow, "job_id,user", *others, others[-2][:40]]))
    of_tomorrow = decided.read_text().replace("priority-inc", "of tomorrow")
    aside = {"type": "coplace.v1.RoundEnded", "data": {"round": "1", "set_aside": True}}
    decided.write_text(f"torn\n{of_tomorrow}\n{json.dumps(aside)}\n")
    done = play("")
    assert done.exit_code == 0, done.output
    told = " ".join(done.output.split())
    for words in (
        "line 3 is torn or not JSON",
        f"line {len(others) + 4} is torn or not JSON",
        "this version does not know coplace.v1.OfTomorrow",
        "the decisions: 1 lines are left out",
        "round 1 was set aside: nothing is decided in it here, either",
    ):
        assert words in told, told
    assert "what-if under the same rules: " in told


def test_policies_weights_and_caps_are_compared_with_the_record(play: Play, tmp_path: Path) -> None:
    policies = "--policy min-energy --policy priority-inc --t-weight 1 --t-weight 2"
    done = play(f"{policies} --cap region=1500 --cap cluster:p1=1e6 --out out")
    assert done.exit_code == 0, done.output
    rows = read(tmp_path / "out" / "comparison.csv")
    assert [(row["policy"], row["t_weight"]) for row in rows] == [
        ("priority-inc-v", "1.0"),
        ("priority-inc-v", "1.0"),
        ("min-energy", "1.0"),
        ("priority-inc", "1.0"),
        ("priority-inc", "2.0"),
    ]
    assert [bool(row["highest_of_cap"]) for row in rows] == [False, False, True, True, True]
    assert all(0 < float(row["highest_of_cap"]) < 2 for row in rows[2:])
    for case in ("record", "same_rules", "min-energy_w=1__region=1500__cluster_p1=1000000"):
        written = {path.name for path in (tmp_path / "out" / case).iterdir()}
        assert written == {"jobs.csv", "summary.json", "load.png", "gantt.png", "power.png"}
    assert [row["job_id"] for row in read(tmp_path / "out" / "record" / "jobs.csv")] == [
        f"j{n}" for n in range(5)
    ]


def test_a_record_is_played_under_another_discipline(play: Play, tmp_path: Path) -> None:
    done = play("--discipline slurm --out out")
    assert done.exit_code == 0, done.output
    row = read(tmp_path / "out" / "comparison.csv")[-1]
    assert (row["case"], row["discipline"]) == ("priority-inc-v w=1, slurm", "slurm")


def test_a_record_of_predicted_run_times_is_replayed_and_played_by_requests(
    play: Play, tmp_path: Path
) -> None:
    """User u0 asks for an hour and runs for 50 s, u1 for most of what it asks for."""
    rules = PolicySettings(runtimes=Runtimes.PREDICTED, passing_share=1.0)
    jobs, run_s = list[Event](), dict[str, float]()
    for n in range(48):
        user, walltime_s = f"u{n % 2}", 600.0 * (6 - n % 5 * (n % 2))
        asked: dict[str, Any] = {"user": user, "walltime_s": walltime_s, "nodes": 1 + n % 3}
        jobs.append(region.submitted(f"j{n}", T0_US + n * 60 * 10**6, **asked))
        run_s[f"j{n}"] = 0.8 * walltime_s if n % 2 else 50.0
    inputs, decided = recorded(jobs, run_s, rules, rounds=800)
    assert any(each.predicted_runtime_s > 0 for each in decided)
    write_record(tmp_path, inputs, decided)
    write_rules(tmp_path, rules)
    done = play("--runtimes requested --out out")
    assert done.exit_code == 0, done.output
    assert "replay: 48 of 48 starts equal" in done.stdout
    assert "what-if under the same rules: 48 of 48 starts equal" in done.stdout
    row = read(tmp_path / "out" / "comparison.csv")[-1]
    assert (row["case"], row["runtimes"]) == ("priority-inc-v w=1, requested", "requested")
    starts = [
        [job["start_s"] for job in read(tmp_path / "out" / case / "jobs.csv")]
        for case in ("record", "same_rules", "priority-inc-v_w=1__requested")
    ]
    assert starts[0] == starts[1] != starts[2]


def test_a_cap_is_said_as_to_cap_set_and_may_follow_a_schedule(play: Play, tmp_path: Path) -> None:
    period = f"{{from: '{format_utc(T0_US)}', until: 2030-01-01, watts: 1500}}"
    (tmp_path / "nights.yaml").write_text(f"periods:\n- {period}\n")
    cases, figures = [], []
    for cap in ("cluster:p1=1500", "p1=1500", "p1=nights.yaml"):
        done = play(f"--cap {cap} --out out")
        assert done.exit_code == 0, done.output
        row = read(tmp_path / "out" / "comparison.csv")[-1]
        cases.append(row.pop("case"))
        figures.append(row)
    label = "priority-inc-v w=1, cluster:p1="
    assert cases == [f"{label}1500", f"{label}1500", f"{label}nights.yaml"]
    assert figures[0] == figures[1] == figures[2]


def test_tariffs_price_the_energy(play: Play, tmp_path: Path) -> None:
    (tmp_path / "tariffs.csv").write_text("cluster,hour,price_per_kwh\np1,0,0.1\np2,0,0.2\n")
    done = play("--tariffs tariffs.csv")
    assert done.exit_code == 0, done.output
    assert "cost of energy" in done.stdout


def test_without_its_decisions_starts_are_compared_with_those_reported(
    play: Play, tmp_path: Path
) -> None:
    (tmp_path / "decisions.jsonl").unlink()
    assert "replay: 6 of 6 starts equal\n" in play("").stdout


def test_a_record_of_other_settings_is_reported_to_differ(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COPLACE_PLACEMENT_T_WEIGHT", "9")
    done = play("")
    assert done.exit_code == 0, done.output
    assert ", 0 of " in done.stdout.splitlines()[0]
    assert "replay differs: placement ran under other COPLACE_PLACEMENT_*" in done.stderr


def test_the_rules_beside_a_record_are_those_that_it_is_replayed_under(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COPLACE_PLACEMENT_T_WEIGHT", "9")
    write_rules(tmp_path, PolicySettings())
    assert "6 of 6 starts equal" in play("").stdout.splitlines()[0]
    (tmp_path / RULES).rename(tmp_path / "others.csv")
    assert ", 0 of " in play("").stdout.splitlines()[0]
    assert "6 of 6 starts equal" in play("--rules others.csv").stdout.splitlines()[0]


def test_the_policy_of_the_record_is_that_of_its_decisions(play: Play, tmp_path: Path) -> None:
    rules = PolicySettings(policy=Policy.BASE)
    write_record(tmp_path, *recorded([region.submitted("j")], {"j": 9.0}, rules))
    assert "1 of 1 starts equal, 1 of 1 decisions to the byte" in play("").stdout


def test_a_record_that_several_policies_decided_says_so(play: Play, tmp_path: Path) -> None:
    file = tmp_path / "decisions.jsonl"
    file.write_text(file.read_text() + '\n{"job_id": "j", "policy": "base"}\n')
    done = play("--threshold 0.9")
    assert done.exit_code == 0, done.output
    assert "base, priority-inc-v decided one after the other" in done.stderr
    assert "priority-inc-v w=1, threshold=0.9" in done.stdout


FILES = {
    "elsewhere.csv": "cluster,hour,price_per_kwh\np9,0,0.1\n",
    "past.yaml": "periods:\n- {from: 2020-01-01, until: 2020-01-02, watts: 1500}\n",
    "low.yaml": f"periods:\n- {{from: '{format_utc(T0_US)}', watts: 5}}\n",
    "none.yaml": "periods: 3",
}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("--cap p1", "is not a cap: write CLUSTER=WATTS"),
        ("--cap cluster=5", "'cluster' is neither a cluster nor a site: known are cluster:p1"),
        ("--cap p1=0", "the cap cluster:p1=0: "),
        (
            "--cap p1=60000 --cap p1=190000",
            "cluster:p1=60000 and cluster:p1=190000 are of the same: leave one out",
        ),
        ("--cap p1=6e4 --cap cluster:p1=6e4", "are of the same: leave one out"),
        ("--cap p1=elsewhere.csv", "elsewhere.csv is not a valid schedule of a cap"),
        ("--cap p1=past.yaml", "lie in the past"),
        ("--cap p1=low.yaml", "below the idle power of its nodes"),
        ("--cap p1=none.yaml", "none.yaml is not a valid schedule of a cap"),
        ("--cap region:x=5", "is not a cap"),
        ("--cap region=lots", "is not a cap"),
        ("--cap region=nan", "region=nan"),
        ("--cap region=-1", "region=-1"),
        ("--cap region=700", "below the idle power of its nodes, 800 W"),
        ("--cap cluster:p9=1e5", "'cluster:p9' is neither a cluster"),
        ("--policy easy", "--policy: Input should be 'base'"),
        ("--swf x.swf", "--swf: of no use on a record"),
        ("--seed 2", "--seed: of no use on a record"),
        ("--from-kafka", "give --recorded or --from-kafka, one of them"),
        ("--tariffs elsewhere.csv", "tariffs are for ['p9']"),
        ("--decisions none.jsonl", "none.jsonl"),
        ("--decisions elsewhere.csv", "holds no decisions: line 1"),
    ],
)
def test_what_cannot_be_played_ends_in_one_line_that_says_why(
    options: str, problem: str, play: Play, tmp_path: Path
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    done = play(options)
    assert done.exit_code == 1, done.output
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert problem in done.stderr

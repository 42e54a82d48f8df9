"""`coplace simulate --recorded` on a small record."""

import csv
import re
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from google.protobuf.json_format import MessageToDict
from typer.testing import CliRunner, Result

from cli.main import app
from cli.times import at
from shared.catalogue.event_json import write_events
from shared.placement.candidates.candidate import Rules
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import T0_US
from tests.unit.shared.simulation.recorded.records import recorded

Command = Callable[..., Result]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Ten jobs, of which one has no end."""
    jobs = [
        region.submitted(f"j{n}", T0_US + n * 10**6, nodes=1 + n % 3, app_id=region.APPS[n % 8])
        for n in range(10)
    ]
    inputs, decisions = recorded(jobs, {f"j{n}": 100.0 + n for n in range(9)})
    path = tmp_path / "placement.inputs.jsonl"
    write_events(path, [e for each in inputs.rounds for e in (*each.events, each.barrier)])
    lines = [orjson.dumps(MessageToDict(d, preserving_proto_field_name=True)) for d in decisions]
    (tmp_path / "decisions.jsonl").write_bytes(b"\n".join(lines))
    return path


@pytest.fixture
def command(file: Path) -> Command:
    def run(*arguments: object) -> Result:
        return CliRunner().invoke(app, ["simulate", "--recorded", str(file), *map(str, arguments)])

    return run


def test_the_record_is_replayed_and_played_under_its_own_rules(command: Command) -> None:
    done = command()
    assert done.exit_code == 0, done.output
    assert re.search(
        r"replay: 10 of 10 starts equal, (\d+) of \1 decisions to the byte", done.stdout
    )
    assert "what-if under the same rules: 10 of 10 starts equal" in done.stdout
    assert "9 jobs, without 1 of which the record tells no end" in done.stdout
    rows = [line for line in done.stdout.splitlines() if line.startswith("│")]
    assert len(rows) == 2


def test_policies_weights_and_caps_are_compared_with_the_record(
    command: Command, tmp_path: Path
) -> None:
    done = command(
        *("--policy", "min-energy", "--policy", "priority-inc", "--t-weight", 1, "--t-weight", 2),
        *("--cap", "region=1500", "--cap", "cluster:p1=1e6", "--out", tmp_path / "out"),
    )
    assert done.exit_code == 0, done.output
    with (tmp_path / "out" / "comparison.csv").open(newline="") as table:
        rows = list(csv.DictReader(table))
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
    jobs = (tmp_path / "out" / "record" / "jobs.csv").read_text().splitlines()
    assert len(jobs) == 10
    assert jobs[1].startswith("j0,")


def test_a_cap_is_said_as_to_cap_set_and_may_follow_a_schedule(
    command: Command, tmp_path: Path
) -> None:
    nights = tmp_path / "nights.yaml"
    begin = at(T0_US)
    nights.write_text(f"periods:\n- {{from: '{begin}', until: 2030-01-01, watts: 1500}}\n")
    rows = {}
    for cap in ("cluster:p1=1500", "p1=1500", f"p1={nights}"):
        done = command("--cap", cap, "--out", tmp_path / "out")
        assert done.exit_code == 0, done.output
        with (tmp_path / "out" / "comparison.csv").open(newline="") as table:
            rows[cap] = [*csv.DictReader(table)][-1]
    first, *others = rows.values()
    assert first["case"] == "priority-inc-v w=1, cluster:p1=1500"
    assert others[0] == first
    assert others[1]["case"] == "priority-inc-v w=1, cluster:p1=nights.yaml"
    assert others[1] | {"case": ""} == first | {"case": ""}
    nights.write_text("periods:\n- {from: 2020-01-01, until: 2020-01-02, watts: 1500}\n")
    assert "lie in the past" in command("--cap", f"p1={nights}").stderr
    nights.write_text(f"periods:\n- {{from: '{begin}', watts: 5}}\n")
    assert "below the idle power of its nodes" in command("--cap", f"p1={nights}").stderr
    nights.write_text("periods: 3")
    assert "nights.yaml is no schedule of a cap" in command("--cap", f"p1={nights}").stderr


def test_tariffs_price_the_energy(command: Command, tmp_path: Path) -> None:
    tariffs = tmp_path / "tariffs.csv"
    tariffs.write_text("cluster,hour,price_per_kwh\np1,0,0.1\np2,0,0.2\n")
    done = command("--tariffs", tariffs)
    assert done.exit_code == 0, done.output
    assert "cost of energy" in done.stdout


def test_without_its_decisions_starts_are_compared_with_those_reported(
    command: Command, tmp_path: Path
) -> None:
    (tmp_path / "decisions.jsonl").unlink()
    done = command()
    assert "replay: 10 of 10 starts equal\n" in done.stdout


def test_a_record_of_other_settings_is_told_to_differ(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COPLACE_PLACEMENT_T_WEIGHT", "9")
    done = command()
    assert done.exit_code == 0, done.output
    assert ", 0 of " in done.stdout.splitlines()[0]
    assert "replay differs: placement ran under other COPLACE_PLACEMENT_*" in done.stderr


def test_the_policy_of_the_record_is_that_of_its_decisions(
    tmp_path: Path, command: Command, file: Path
) -> None:
    inputs, decisions = recorded([region.submitted("j")], {"j": 9.0}, Rules(policy="base"))  # type: ignore[arg-type]
    write_events(file, [e for each in inputs.rounds for e in (*each.events, each.barrier)])
    lines = [orjson.dumps(MessageToDict(d, preserving_proto_field_name=True)) for d in decisions]
    (tmp_path / "decisions.jsonl").write_bytes(b"\n".join(lines))
    assert "1 of 1 starts equal, 1 of 1 decisions to the byte" in command().stdout


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--cap", "p1"), "is no cap: write CLUSTER=WATTS"),
        (("--cap", "cluster=5"), "'cluster' is no cluster and no site: known are cluster:p1"),
        (("--cap", "p1=0"), "the cap cluster:p1=0: "),
        (
            ("--cap", "p1=60000", "--cap", "p1=190000"),
            "cluster:p1=60000 and cluster:p1=190000 are of the same: leave one out",
        ),
        (("--cap", "p1=6e4", "--cap", "cluster:p1=6e4"), "are of the same: leave one out"),
        (("--cap", "p1=6e4", "--cap", "p1=6e4"), "--cap: 'p1=6e4' is given twice"),
        (
            ("--policy", "base", "--policy", "priority-inc", "--threshold", "0.9"),
            "--threshold is of priority-inc-v and look-ahead alone: leave it out",
        ),
        (("--cap", "p1=TARIFFS"), "is no cap"),
        (("--cap", "region:x=5"), "is no cap"),
        (("--cap", "region=lots"), "is no cap"),
        (("--cap", "region=nan"), "region=nan"),
        (("--cap", "region=-1"), "region=-1"),
        (("--cap", "region=700"), "below the idle power of its nodes, 800 W"),
        (("--cap", "cluster:p9=1e5"), "'cluster:p9' is no cluster"),
        (("--policy", "easy"), "--policy: Input should be 'base'"),
        (("--policy", "conservative"), "--policy: Input should be 'base'"),
        (("--swf", "x.swf"), "--swf: of no use on a record"),
        (("--seed", "2"), "--seed: of no use on a record"),
        (("--from-kafka",), "give --recorded or --from-kafka, one of them"),
        (("--tariffs", "TARIFFS"), "tariffs are for ['p9']"),
        (("--decisions", "none.jsonl"), "none.jsonl"),
        (("--decisions", "TARIFFS"), "holds no decisions: line 1"),
    ],
)
def test_what_cannot_be_played_ends_in_one_line_that_says_why(
    options: tuple[str, ...], problem: str, command: Command, tmp_path: Path
) -> None:
    tariffs = tmp_path / "tariffs.csv"
    tariffs.write_text("cluster,hour,price_per_kwh\np9,0,0.1\n")
    done = command(*(tariffs if option == "TARIFFS" else option for option in options))
    assert done.exit_code == 1, done.output
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert problem in done.stderr


def test_options_of_a_record_are_refused_elsewhere() -> None:
    done = CliRunner().invoke(app, ["simulate", "--swf", "x.swf", "--no-caps"])
    assert "--no-caps: of no use on one pool" in done.stderr


def test_decisions_of_a_policy_that_placement_does_not_have_are_refused(
    command: Command, tmp_path: Path
) -> None:
    (tmp_path / "decisions.jsonl").write_text('{"job_id": "j", "policy": "of tomorrow"}\n')
    done = command()
    assert done.exit_code == 1
    assert "was decided by 'of tomorrow', no policy of placement" in done.stderr


def test_a_record_that_several_policies_decided_says_so(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "decisions.jsonl"
    file.write_text(file.read_text() + '\n{"job_id": "j", "policy": "base"}\n')
    done = command("--threshold", 0.9)
    assert done.exit_code == 0, done.output
    assert "base, priority-inc-v decided one after the other" in done.stderr
    assert "priority-inc-v w=1, threshold=0.9" in done.stdout

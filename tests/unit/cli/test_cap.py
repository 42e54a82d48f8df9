"""`coplace cap`: what it declares, shows and refuses, and the snippets of its how-to."""

import re
import shlex
import time
from pathlib import Path

import pytest
from coplace.v1.control_pb2 import (
    POWER_SCOPE_CLUSTER,
    POWER_SCOPE_REGION,
    POWER_SCOPE_SITE,
    PowerCapStep,
)
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.placement_service_pb2 import PowerStanding, ShowPowerResponse
from google.protobuf.json_format import Parse
from typer.testing import Result

from cli.cap import cli, declare
from cli.cap.schedule import Period, read_schedule, steps
from cli.times import time_us
from coplace_client.errors import UnusableError
from tests.support.snippets import HOW_TO, programs
from tests.unit.cli.command_line import coplace, published_by, taken

GUIDE = HOW_TO / "power-caps.md"
EIGHT_US = time_us("2026-07-01T08:00:00Z")
NOW_US = time_us("2026-07-01T07:55:12Z")
HOUR_US = 3_600_000_000


def answer() -> ShowPowerResponse:
    """One cluster of the site north, capped until the evening."""
    whole = PowerStanding(
        idle_w=56_320.0, committed_w=20_410.0, silent_nodes=3, nameplate_w=1_290.0
    )
    p1 = PowerStanding(
        scope=POWER_SCOPE_CLUSTER,
        name="p1",
        cap_w=90_000.0,
        ahead=[PowerCapStep(from_us=time_us("2026-07-01T20:00:00Z"))],
        headroom_w=12_370.0,
        margin_w=900.0,
        declared_by="operator/ada",
        reason="cooling is serviced",
        declared_at_us=NOW_US,
        measured_w=77_204.0,
        above_s=240.0,
        above_j=403_200.0,
    )
    north = PowerStanding(scope=POWER_SCOPE_SITE, name="north")
    region = PowerStanding(scope=POWER_SCOPE_REGION)
    for standing in (p1, north, region):
        standing.MergeFrom(whole)
    as_of_us = time_us("2026-07-01T09:30:00Z")
    return ShowPowerResponse(as_of_us=as_of_us, standings=[p1, north, region])


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[Envelope]:
    monkeypatch.setattr(declare, "ask", lambda _address: answer())
    monkeypatch.setattr(time, "time_ns", lambda: NOW_US * 1000)
    return published_by(cli, monkeypatch)


def run(line: str) -> Result:
    return coplace(*shlex.split(line)[1:])


def snippets() -> list[str]:
    blocks = re.findall(
        r"^```\n(coplace cap .*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL
    )
    return [line for block in blocks for line in block.splitlines()]


def test_the_commands_of_the_how_to_do_what_it_says(
    published: list[Envelope], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (programs(GUIDE, "yaml") | programs(GUIDE, "csv")).items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    commands = snippets()
    assert len(commands) == 6
    shown, *others = [run(line) for line in commands]
    told = [line.rstrip() for line in shown.output.splitlines() if line.strip()]
    assert told == GUIDE.read_text().split("```")[3].strip().splitlines(), shown.output
    for result in others:
        assert result.exit_code == 0, result.output
    for event in published:
        assert taken(event).topic == "commands"
    first, region, cleared, nights, carbon = (event.power_cap_declared for event in published)
    assert [(s.from_us, s.watts) for s in first.steps[:1]] == [(NOW_US, 90_000.0)]
    assert first.steps[1].from_us == NOW_US + 12 * HOUR_US
    assert not first.steps[1].HasField("watts")
    assert (region.scope, region.name) == (POWER_SCOPE_REGION, "")
    assert [s.HasField("watts") for s in cleared.steps] == [False]
    assert [s.watts for s in nights.steps] == [90_000.0, 120_000.0, 100_000.0]
    assert nights.reason == "the day tariff"
    assert [(s.from_us - EIGHT_US, s.watts) for s in carbon.steps] == [
        (-HOUR_US, 250_000.0),
        (HOUR_US, 215_000.0),
        (2 * HOUR_US, 180_000.0),
    ]


def test_a_cap_over_clusters_without_a_nameplate_is_refused_with_what_to_declare(
    published: list[Envelope], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = answer()
    found.standings[1].unrated_clusters.extend(("p1", "p2"))
    monkeypatch.setattr(declare, "ask", lambda _address: found)
    refused = run("coplace cap set north 90000")
    assert refused.exit_code != 0
    assert not published
    told = " ".join(refused.stderr.split())
    assert "cluster p1 declares neither nameplate_power_w nor processors_tdp_w" in told
    assert "nor do 1 more: declare one first" in told
    assert run("coplace cap clear north").exit_code == 0


def test_an_answer_for_programs_has_all_that_placement_said(published: list[Envelope]) -> None:
    shown = run("coplace cap show --output json")
    assert Parse(shown.output, ShowPowerResponse()) == answer()
    assert published == []


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("coplace cap set p3 90000", "'p3' is neither a cluster nor a site"),
        ("coplace cap set p1 56319", "below the idle power of cluster p1, 56,320 W"),
        ("coplace cap set p1 90000 --reason -5 --sauce x", "No such option: --sauce"),
        ("coplace cap set p1", "one of WATTS, --schedule and --signal"),
        ("coplace cap set p1 90000 --from tomorrow", "is not a time such as"),
        ("coplace cap set p1 90000 --rule 1=90000,2=80000", "--signal and --rule belong together"),
        (
            "coplace cap set p1 90000 --from 2026-07-01T08:00Z --until 2026-07-01T08:00Z",
            "must end after it begins",
        ),
    ],
)
def test_what_placement_would_refuse_is_not_published(
    published: list[Envelope], line: str, problem: str
) -> None:
    result = run(line)
    assert result.exit_code != 0
    assert problem in " ".join((result.output + str(result.exception)).split())
    assert published == []


@pytest.mark.parametrize(
    ("watts", "problem"),
    [
        ("0", "the cap of p1: must be from 1 to 1,000,000,000 W, got 0.0"),
        ("nan", "the cap of p1: must be from 1 to 1,000,000,000 W, got nan"),
        ("inf", "the cap of p1: must be from 1 to 1,000,000,000 W, got inf"),
        ("-5", "-5 W is not a valid cap: give more than 0"),
        ("-1e5 --reason hot", "-1e5 W is not a valid cap: give more than 0"),
        ("-inf", "-inf W is not a valid cap: give more than 0"),
        ("-- -5", "the cap of p1: must be from 1 to 1,000,000,000 W, got -5.0"),
    ],
)
def test_watts_that_no_cap_has_are_refused_before_anybody_is_asked(
    watts: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(address: str) -> ShowPowerResponse:
        raise AssertionError(address)

    monkeypatch.setattr(declare, "ask", asked)
    result = run(f"coplace cap set p1 {watts}")
    assert result.exit_code == 1
    assert result.output == f"error: {problem}\n"


def test_what_an_option_gets_may_be_a_number_below_0(published: list[Envelope]) -> None:
    assert run("coplace cap set p1 90000 --reason -5").exit_code == 0
    assert published[0].power_cap_declared.reason == "-5"


def test_a_name_of_a_cluster_and_a_site_has_to_say_which() -> None:
    both = answer()
    both.standings.add(scope=POWER_SCOPE_SITE, name="p1")
    with pytest.raises(declare.WrongCapError, match="'cluster p1' or 'site p1'"):
        declare.find_state(both, "p1")
    assert declare.find_state(both, "site p1").scope == POWER_SCOPE_SITE
    assert declare.find_state(both, "region").scope == POWER_SCOPE_REGION


def period(begin_s: int, end_s: int | None, watts: float = 1.0) -> Period:
    until_us = None if end_s is None else EIGHT_US + end_s
    return Period.model_construct(watts=watts, from_us=EIGHT_US + begin_s, until_us=until_us)


def test_periods_become_steps_and_there_is_no_cap_between_them() -> None:
    found = steps([period(20, 30, 2.0), period(0, 10), period(30, None, 3.0)])
    told = [(s.from_us - EIGHT_US, s.watts if s.HasField("watts") else None) for s in found]
    assert told == [(0, 1.0), (10, None), (20, 2.0), (30, 3.0)]


@pytest.mark.parametrize("other", [period(5, 15), period(5, None), period(0, 10)])
def test_periods_that_overlap_are_refused(other: Period) -> None:
    with pytest.raises(UnusableError, match="overlap"):
        steps([period(0, 10), other])


@pytest.mark.parametrize(
    "text",
    [
        "periods: []",
        "periods: 3",
        "caps: []",
        "periods: [{watts: 1}]",
        "periods: [{from: x, watts: 1}]",
        "periods: [{from: 2026-07-01T08:00Z, watts: 0}]",
        "periods: [{from: 2026-07-01T08:00Z, watts: .nan}]",
    ],
)
def test_a_file_that_is_no_schedule_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "caps.yaml").write_text(text)
    with pytest.raises(UnusableError, match="is not a valid schedule of a cap"):
        read_schedule(tmp_path / "caps.yaml")

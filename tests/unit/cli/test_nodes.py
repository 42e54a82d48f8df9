"""What `coplace drain`, `resume`, `nodes` and `undeclare` publish, show and refuse."""

import csv
import json
import time

import pytest
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.placement_service_pb2 import (
    NODE_STATE_ALLOCATED,
    NODE_STATE_DRAINED,
    NODE_STATE_IDLE,
    NODE_STATE_UNSPECIFIED,
    ClusterStanding,
    NodeGroup,
    NodeState,
    ShowNodesResponse,
)
from typer.testing import Result

from cli import nodes
from cli.times import time_us
from tests.unit.cli.command_line import IN_FORCE, coplace, published_by, taken

NOW_US = time_us("2026-07-01T07:55:12Z")
UNTIL_US = time_us("2026-07-01T12:00:00Z")


def answer() -> ShowNodesResponse:
    """Of four nodes one is drained and two are a job's."""
    held = NodeGroup(nodes=["n[1-2]"], count=2, state=NODE_STATE_ALLOCATED, jobs_left_out=1)
    held.job_ids.append("north/p1/4711/1767225600")
    drained = NodeGroup(nodes=["n3"], count=1, state=NODE_STATE_DRAINED, drained_by="operator/ada")
    drained.reason = (
        "a fan is broken, and its spare part comes with the truck of Thursday or Friday"
    )
    drained.drained_at_us, drained.until_us = NOW_US, UNTIL_US
    idle = NodeGroup(nodes=["n4"], count=1, state=NODE_STATE_IDLE)
    for group in (held, drained, idle):
        group.cluster = "p1"
    p1 = ClusterStanding(cluster="p1", nodes=4, closed="lost since today: power cut")
    return ShowNodesResponse(as_of_us=NOW_US, clusters=[p1], groups=[held, drained, idle])


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[Envelope]:
    monkeypatch.setattr(nodes, "ask", lambda _address, _cluster: answer())
    monkeypatch.setattr(time, "time_ns", lambda: NOW_US * 1000)
    return published_by(nodes, monkeypatch)


def run(*words: str) -> Result:
    return coplace(*words, COPLACE_SOURCE="operator/ada")


def test_nodes_are_drained_with_a_reason_until_a_time(published: list[Envelope]) -> None:
    until = "--until=2026-07-01T12:00:00Z"
    result = run("drain", "p1", "n[1-2]", "n4", "--reason", "a fan is broken", until)
    drained = f"drained n[1-2],n4 of p1 until 2026-07-01T12:00:00Z\n{IN_FORCE}"
    now = "placement now has: n3 drained: a fan is broken, and "
    assert result.stdout.startswith(f"{drained}{now}")
    [event] = published
    assert event.id == f"operator/ada/coplace.v1.NodesDrained/p1/{NOW_US}"
    told = event.nodes_drained
    assert (told.cluster, [*told.nodes]) == ("p1", ["n[1-2]", "n4"])
    assert (told.reason, told.drained_at_us) == ("a fan is broken", NOW_US)
    assert told.until_us == UNTIL_US
    assert taken(event).topic == "commands"


def test_a_whole_cluster_is_drained_and_resumed(published: list[Envelope]) -> None:
    drained = run("drain", "p1", "--reason", "the pump is serviced")
    told = "drained all 4 nodes of p1: `coplace resume p1` ends it\n"
    assert drained.stdout.startswith(f"{told}{IN_FORCE}placement now has: n3 drained")
    told = f"resumed all 4 nodes of p1\n{IN_FORCE}"
    still = "still drained: n3, a fan is broken"  # as placement says afterwards
    assert run("resume", "p1").stdout.startswith(f"{told}{still}")
    first, second = published
    assert list(first.nodes_drained.nodes) == list(second.nodes_resumed.nodes) == []
    assert [taken(event).topic for event in published] == ["commands", "commands"]


def test_the_hint_of_a_drain_undoes_that_drain_alone(published: list[Envelope]) -> None:
    told = run("drain", "p1", "n[1-2]", "n4", "--reason", "a fan is broken").stdout
    assert "`coplace resume p1 n[1-2] n4` ends it" in told
    run("resume", "p1", "n[1-2]", "n4")
    assert list(published[-1].nodes_resumed.nodes) == ["n[1-2]", "n4"]


def test_the_drains_of_others_are_undone_by_name_or_with_a_flag_alone(
    published: list[Envelope],
) -> None:
    refused = coplace("resume", "p1", COPLACE_SOURCE="olga")
    assert refused.exit_code == 1
    assert "others drained nodes of p1: n3: a fan is broken" in refused.stderr
    assert "(operator/ada, until" in refused.stderr
    assert "or give --all" in refused.stderr
    assert published == []
    for words in (["n3"], ["--all"]):
        assert not coplace("resume", "p1", *words, COPLACE_SOURCE="olga").exit_code
    assert [list(each.nodes_resumed.nodes) for each in published] == [["n3"], []]


def test_a_drain_beside_an_own_one_is_of_others_too(
    published: list[Envelope], monkeypatch: pytest.MonkeyPatch
) -> None:
    both = answer()
    both.groups[1].also_drained_by.append("slurm/p1")
    monkeypatch.setattr(nodes, "ask", lambda _address, _cluster: both)
    refused = run("resume", "p1")
    assert refused.exit_code == 1
    assert "slurm/p1" in refused.stderr
    assert published == []


def test_a_cluster_is_undeclared_with_a_reason(published: list[Envelope]) -> None:
    result = run("undeclare", "p1", "--reason", "sold")
    ends = "1 jobs or more run there, until they end; declare it again to have it back"
    undeclared = f"undeclared p1: {ends}\n{IN_FORCE}placement now has: "
    assert result.stdout.startswith(undeclared), result.stdout
    [event] = published
    told = event.cluster_undeclared
    assert (told.cluster, told.reason, told.undeclared_at_us) == ("p1", "sold", NOW_US)
    assert taken(event).topic == "commands"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["drain", "p1", "n9", "--reason", "x"], "p1 has no node 'n9': its nodes are"),
        (["drain", "p1", "n[9", "--reason", "x"], "is not a list of nodes"),
        (["resume", "p1", "n9"], "p1 has no node 'n9'"),
        (["drain", "p1"], "give the reason"),
        (["undeclare", "p1"], "give the reason"),
        (["drain", "p1", "--reason", "x", "--until", "2026-06-01"], "lies in the past"),
        (["drain", "p1", "--reason", "x", "--until", "soon"], "--until"),
    ],
)
def test_what_placement_would_refuse_is_not_published(
    published: list[Envelope], words: list[str], problem: str
) -> None:
    result = run(*words)
    assert result.exit_code
    assert problem in result.output
    assert published == []


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize("words", [["nodes"], ["nodes", "p1"]])
def test_a_table_fits_a_terminal_of_80_columns(words: list[str]) -> None:
    lines = run(*words).stdout.splitlines()
    assert lines[0] == "as of 2026-07-01T07:55:12Z"
    assert lines[1] == "p1: nothing starts there, lost since today: power cut"
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).replace("|", " ").split())
    assert "a fan is" in text
    assert "drained" in text


@pytest.mark.usefixtures("published")
def test_programs_read_json_and_csv() -> None:
    found = json.loads(run("nodes", "p1", "--output", "json").stdout)
    assert [group["count"] for group in found["groups"]] == [2, 1, 1]
    rows = list(csv.DictReader(run("nodes", "--output", "csv").stdout.splitlines()))
    assert [row["state"] for row in rows] == ["allocated", "drained", "idle"]
    assert rows[0]["jobs"] == "north/p1/4711/1767225600 and 1 more"
    assert (rows[1]["drained_by"], rows[1]["until"]) == ("operator/ada", "2026-07-01T12:00:00Z")


def test_every_state_of_nodes_has_a_word() -> None:
    assert nodes._STATES.keys() == {*NodeState.values()} - {NODE_STATE_UNSPECIFIED}

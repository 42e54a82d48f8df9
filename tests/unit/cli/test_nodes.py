"""What `coplace drain`, `resume`, `nodes` and `undeclare` publish, show and refuse."""

import csv
import io
import json
import time

import pytest
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.placement_service_pb2 import (
    NODE_STATE_ALLOCATED,
    NODE_STATE_DRAINED,
    NODE_STATE_IDLE,
    ClusterStanding,
    NodeGroup,
    ShowNodesResponse,
)
from typer.testing import CliRunner, Result

from cli import nodes
from cli.main import app
from cli.times import time_us
from services.ingest.model import Intake
from shared.catalogue.topics import Topics

NOW_US = time_us("2026-07-01T07:55:12Z")
UNTIL_US = time_us("2026-07-01T12:00:00Z")


def answer() -> ShowNodesResponse:
    """Of four nodes one is drained and two are a job's."""
    drained = NodeGroup(
        cluster="p1",
        nodes=["n3"],
        count=1,
        state=NODE_STATE_DRAINED,
        reason="a fan is broken, and its spare part comes with the truck of Thursday or Friday",
        drained_by="operator/ada",
        drained_at_us=NOW_US,
        until_us=UNTIL_US,
    )
    return ShowNodesResponse(
        as_of_us=NOW_US,
        clusters=[ClusterStanding(cluster="p1", nodes=4, closed="lost since today: power cut")],
        groups=[
            NodeGroup(
                cluster="p1",
                nodes=["n[1-2]"],
                count=2,
                state=NODE_STATE_ALLOCATED,
                job_ids=["north/p1/4711/1767225600"],
                jobs_left_out=1,
            ),
            drained,
            NodeGroup(cluster="p1", nodes=["n4"], count=1, state=NODE_STATE_IDLE),
        ],
    )


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[Envelope]:
    found: list[Envelope] = []
    monkeypatch.setattr(nodes, "ask", lambda _address, _cluster: answer())
    monkeypatch.setattr(nodes, "publish", lambda _address, event: found.append(event))
    monkeypatch.setattr(time, "time_ns", lambda: NOW_US * 1000)
    return found


def run(*words: str) -> Result:
    return CliRunner().invoke(app, [*words], env={"COPLACE_SOURCE": "operator/ada"})


def accepted(event: Envelope) -> str:
    """The topic that ingest would put it into."""
    return Intake(Topics()).accept(event, NOW_US / 1e6).topic


def test_nodes_are_drained_with_a_reason_until_a_time(published: list[Envelope]) -> None:
    until = "--until=2026-07-01T12:00:00Z"
    result = run("drain", "p1", "n[1-2]", "n4", "--reason", "a fan is broken", until)
    assert result.stdout == "drained n[1-2],n4 of p1 until 2026-07-01T12:00:00Z\n"
    [event] = published
    assert event.id == f"operator/ada/coplace.v1.NodesDrained/p1/{NOW_US}"
    told = event.nodes_drained
    assert (told.cluster, list(told.nodes), told.reason) == (
        "p1",
        ["n[1-2]", "n4"],
        "a fan is broken",
    )
    assert (told.drained_at_us, told.until_us) == (NOW_US, UNTIL_US)
    assert accepted(event) == "commands"


def test_a_whole_cluster_is_drained_and_resumed(published: list[Envelope]) -> None:
    drained = run("drain", "p1", "--reason", "the pump is serviced")
    assert drained.stdout == "drained all 4 nodes of p1: `coplace resume p1` ends it\n"
    assert run("resume", "p1").stdout == "resumed all 4 nodes of p1\n"
    first, second = published
    assert list(first.nodes_drained.nodes) == list(second.nodes_resumed.nodes) == []
    assert [accepted(event) for event in published] == ["commands", "commands"]


def test_a_cluster_is_undeclared_with_a_reason(published: list[Envelope]) -> None:
    result = run("undeclare", "p1", "--reason", "sold")
    ends = "1 jobs or more run there, and end as ever; declare it again to have it back"
    assert result.stdout == f"undeclared p1: {ends}\n"
    [event] = published
    told = event.cluster_undeclared
    assert (told.cluster, told.reason, told.undeclared_at_us) == ("p1", "sold", NOW_US)
    assert accepted(event) == "commands"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            ["drain", "p1", "n9", "--reason", "x"],
            "p1 has no node 'n9': its nodes are",
        ),
        (["drain", "p1", "n[9", "--reason", "x"], "is no list of nodes"),
        (["resume", "p1", "n9"], "p1 has no node 'n9'"),
        (["drain", "p1"], "say why"),
        (["undeclare", "p1"], "say why"),
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
    lines = run("nodes", "p1", "--output", "json").stdout.splitlines()
    assert [json.loads(line)["count"] for line in lines] == [2, 1, 1]
    rows = list(csv.DictReader(io.StringIO(run("nodes", "--output", "csv").stdout)))
    assert [row["state"] for row in rows] == ["allocated", "drained", "idle"]
    assert rows[0]["jobs"] == "north/p1/4711/1767225600 and 1 more"
    assert (rows[1]["drained_by"], rows[1]["until"]) == ("operator/ada", "2026-07-01T12:00:00Z")

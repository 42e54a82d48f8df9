"""`coplace limits set|show`."""

import json

import pytest
from coplace.v1.control_pb2 import LIMIT_SUBJECT_ACCOUNT, LIMIT_SUBJECT_USER
from coplace.v1.ingest_service_pb2 import Envelope
from typer.testing import CliRunner

from cli import limits as commands
from cli.main import app
from services.ingest.model import Intake
from shared.catalogue.topics import Topics
from tests.unit.cli.served import Served
from tests.unit.shared.placement.region import T0_US, limits, placement, round_of, submitted


def test_limits_are_shown_with_what_is_held_under_them() -> None:
    processor = placement()
    ada = limits(LIMIT_SUBJECT_USER, "ada", most_running_jobs=3, most_nodes=4)
    physics = limits(LIMIT_SUBJECT_ACCOUNT, "physics", most_nodes=9)
    gone = limits(LIMIT_SUBJECT_USER, "bob", most_running_jobs=1)
    no_more = limits(LIMIT_SUBJECT_USER, "bob", T0_US + 1)
    job = submitted("a", nodes=2, user="ada", account="physics")
    round_of(processor, 0, ada, physics, gone, no_more, job)
    with Served(processor) as address:
        words = ["limits", "show", "--output", "json", "--placement", address]
        found = CliRunner().invoke(app, words)
    assert [json.loads(line) for line in found.stdout.splitlines()] == [
        {
            "of": "account",
            "name": "physics",
            "jobs": 1,
            "most jobs": None,
            "nodes": 2,
            "most nodes": 9,
        },
        {"of": "user", "name": "ada", "jobs": 1, "most jobs": 3, "nodes": 2, "most nodes": 4},
    ]


def test_what_is_set_is_an_event_that_ingest_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    published: list[Envelope] = []
    monkeypatch.setattr(commands, "publish", lambda _address, event: published.append(event))
    words = ["limits", "set", "user", "ada", "--nodes", "64", "--source", "operator/bob"]
    told = CliRunner().invoke(app, words)
    assert told.stdout == "declared for user ada: any number of jobs at once, at most 64 nodes\n"
    [event] = published
    accepted = Intake(Topics()).accept(event, event.time_us / 1e6)
    assert (accepted.topic, accepted.event.source) == ("commands", "operator/bob")
    assert (event.limits_declared.most_running_jobs, event.limits_declared.most_nodes) == (0, 64)


def test_a_name_that_is_none_is_refused_in_one_line() -> None:
    told = CliRunner().invoke(app, ["limits", "set", "user", "", "--nodes", "64"])
    assert told.exit_code == 1
    assert told.stderr.startswith("error: name: must be 1 to 256 printable characters")

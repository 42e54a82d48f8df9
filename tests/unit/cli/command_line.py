"""The command line as its users call it."""

import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from coplace.v1.control_pb2 import CommandOutcome
from coplace.v1.ingest_service_pb2 import Envelope
from typer.testing import CliRunner, Result

from cli.main import app
from services.ingest.model import Intake
from shared.catalogue.event import Event, Publish
from shared.catalogue.topics import Topics


def coplace(*words: object, **environment: str) -> Result:
    """What came of a command."""
    return CliRunner().invoke(app, [*map(str, words)], env=environment)


def said(*words: object) -> str:
    """What a command printed that did what it was asked."""
    done = coplace(*words)
    assert done.exit_code == 0, done.output
    return done.stdout


def rows_of(printed: str) -> list[dict[str, Any]]:
    """A table that was asked for as JSON."""
    return [json.loads(line) for line in printed.splitlines()]


def refusal(*words: object) -> str:
    """The one line in which a command says what it cannot do, and nothing else."""
    done = coplace(*words)
    assert (done.exit_code, done.stdout) == (1, ""), done.output
    [line] = done.stderr.splitlines()
    assert line.startswith("error: ")
    return line


def published_by(
    commands: ModuleType,
    patched: pytest.MonkeyPatch,
    owner: Callable[[Event], object] = lambda _event: None,
) -> list[Envelope]:
    """What these commands hand to ingest from now on; its owner has it in force at once."""
    found: list[Envelope] = []

    def order(_address: str, event: Envelope, _wait_s: float) -> CommandOutcome:
        found.append(event)
        owner(taken(event).event)
        return CommandOutcome(command_id=event.id, owner="its owner", round=7)

    patched.setattr(commands, "order", order)
    return found


IN_FORCE = "in force since round 7 of its owner\n"


def taken(event: Envelope) -> Publish:
    """As ingest takes it."""
    return Intake(Topics()).accept(event, event.time_us / 1e6)

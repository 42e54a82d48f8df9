"""What a shell completes, asked as bash asks it."""

import socket
import time
from collections.abc import Iterator

import pytest
import typer
from typer.testing import CliRunner, Result

from cli.main import app
from shared.domain.eamc_policy import Policy
from tests.unit.cli.served import Served
from tests.unit.shared.placement.region import (
    T0_US,
    cancelled,
    end_us,
    held,
    placement,
    round_of,
    submitted,
)

RUNS, WAITS, HELD, CANCELLED = JOBS = tuple(f"north/alpha/471{n}/1767225600" for n in range(4))
OF_JOBS = ("why", "cancel", "hold", "prioritize", "release", "suspend", "unsuspend", "seize")
OF_CLUSTERS = ("queue ", "nodes ", "drain ", "resume ", "undeclare ", "jobs --cluster ")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Of a placement with two clusters of four nodes and a job in each state."""
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0, *(submitted(name, T0_US + n, nodes=4) for n, name in enumerate(JOBS)))
    round_of(processor, 1, held(HELD, end_us(0)), cancelled(CANCELLED, end_us(0)))
    with Served(processor) as found:
        yield found


def asked(line: str, placement: str = "") -> Result:
    """What the key does at the end of a line."""
    words = line.split(" ")
    environment = {
        "_COPLACE_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "COPLACE_PLACEMENT_ADDRESS": placement or None,
    }
    return CliRunner().invoke(app, [], env=environment, prog_name="coplace")


def completed(line: str, placement: str = "") -> list[str]:
    result = asked(line, placement)
    assert result.exit_code == 0, result.output
    return result.stdout.split()


@pytest.mark.parametrize(
    ("begin", "completed_to"),
    [
        *((f"{verb} ", [RUNS, WAITS, HELD]) for verb in OF_JOBS),
        *((f"{verb} {WAITS[:16]}", [WAITS]) for verb in OF_JOBS),
        *((f"{verb} south", []) for verb in OF_JOBS),
        *((begin, ["p1", "p2"]) for begin in OF_CLUSTERS),
        *((f"{begin}p2", ["p2"]) for begin in OF_CLUSTERS),
        ("cap set ", ["p1", "p2", "site", "region"]),
        ("tail placement.d", ["placement.decisions"]),
        ("dlq list jobs", ["jobs.events"]),
    ],
)
def test_jobs_that_are_not_over_clusters_and_topics_are_completed(
    address: str, begin: str, completed_to: list[str]
) -> None:
    assert completed(f"coplace {begin}", address) == completed_to


def test_an_option_on_the_line_says_who_is_asked(address: str) -> None:
    assert completed(f"coplace queue --placement {address} ", "127.0.0.1:1") == ["p1", "p2"]
    assert completed(f"coplace why --address {address} ", "127.0.0.1:1") == [RUNS, WAITS, HELD]


@pytest.mark.parametrize("is_there", [False, True])
def test_where_nothing_answers_nothing_is_completed_or_said(is_there: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        if not is_there:
            silent.close()
        for line in ("coplace why ", "coplace queue ", "coplace cap set "):
            begin_s = time.monotonic()
            result = asked(line, f"127.0.0.1:{port}")
            assert (result.exit_code, result.output.strip()) == (0, "")
            assert time.monotonic() - begin_s < 30, "a command waits that long"


def test_every_job_and_cluster_that_a_command_takes_is_completed() -> None:
    """A new command that forgets it fails here."""
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for name in commands:
        for parameter in commands[name].params:
            metavar = getattr(parameter, "metavar", "") or ""
            if metavar.strip("[]") in ("JOB", "CLUSTER"):
                assert parameter._custom_shell_complete is not None, name

"""What commands print for programs is what HTTP answers."""

import asyncio
import json
from pathlib import Path

import pytest
from coplace.v1.control_pb2 import LIMIT_SUBJECT_USER

from services.rest.openapi import document
from services.rest.routes import routes
from shared.domain.eamc_policy import Policy
from shared.placement.processor.placement import Placement
from tests.unit.cli.command_line import said
from tests.unit.cli.served import Served
from tests.unit.services.rest.served import Region, rest_over
from tests.unit.shared.placement.region import T0_US, limits, placement, round_of, submitted

JOBS = tuple(f"north/alpha/471{n}/1767225600" for n in range(3))


@pytest.fixture(scope="module")
def busy() -> Placement:
    """A placement with a job that starts, two that wait, and a limit."""
    processor = placement(policy=Policy.BASE)
    jobs = (submitted(name, T0_US + n, nodes=4, user="ada") for n, name in enumerate(JOBS))
    round_of(processor, 0, limits(LIMIT_SUBJECT_USER, "ada", most_nodes=64), *jobs)
    return processor


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (["jobs"], "/v1/jobs?most=50"),
        (
            ["jobs", "--user", "ada", "--standing", "waiting"],
            "/v1/jobs?most=50&user=ada&standings=WAITING",
        ),
        (
            ["queue", "p1"],
            "/v1/jobs?most=50&cluster=p1&inQueue=true&standings=WAITING&standings=RESERVED",
        ),
        (["clusters"], "/v1/clusters"),
        (["nodes"], "/v1/nodes"),
        (["nodes", "p2"], "/v1/nodes?cluster=p2"),
        (["limits", "show"], "/v1/limits"),
        (["policy", "show"], "/v1/policy"),
        (["cap", "show"], "/v1/power"),
        (["why", JOBS[0]], f"/v1/jobs/{JOBS[0]}"),
    ],
)
def test_a_command_prints_the_document_that_http_has(
    busy: Placement, words: list[str], path: str
) -> None:
    async def over_http() -> bytes:
        async with rest_over(Region(placement=busy)) as client:
            found = await client.get(path.replace("standings=", "standings=JOB_STANDING_"))
            assert found.status == 200, found
            return found.body

    option = "--address" if words[0] == "why" else "--placement"
    with Served(busy) as address:
        printed = said(*words, "--output", "json", option, address)
    assert printed.encode() == asyncio.run(over_http()) + b"\n"


def test_the_document_of_http_is_written_without_a_server(tmp_path: Path) -> None:
    assert said("openapi", "--out", tmp_path).strip() == str(tmp_path / "openapi.json")
    assert json.loads((tmp_path / "openapi.json").read_text()) == document(routes())

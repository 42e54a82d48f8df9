"""Tools of the Model Context Protocol, asked by the client of its library."""

import json
import random
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import pytest
from coplace.v1.control_pb2 import LIMIT_SUBJECT_USER
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from jsonschema import Draft202012Validator
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, TextContent

from cli.mcp.cli import asking
from cli.mcp.server import server, tools
from cli.mcp.tools import ask, questions
from coplace_client.channels import GrpcFiles
from services.rest.routes import Route
from shared.domain.eamc_policy import Policy
from tests.support.certificates import certificate_authority, identity
from tests.unit.cli.served import Served
from tests.unit.services.calls import served
from tests.unit.services.rest.served import Client as HttpClient
from tests.unit.services.rest.served import Region, rest_over
from tests.unit.services.rest.test_authority import guarded
from tests.unit.shared.placement.region import T0_US, limits, placement, round_of, submitted

JOBS = tuple(f"north/alpha/471{n}/1767225600" for n in range(3))
# What an assistant may give for any argument: right, unknown, of another type, hostile.
_VALUES = (
    *(*JOBS, "p1", "p2", "p9", "ada", "bob", "", "nope/" * 40, "../p1", "a\x00b", "é", "%2e%2e"),
    *(0, 1, 2, 50, -1, 2**40, 1.5, "1", "007", "JOB_STANDING_WAITING", True, False, None),
    *(["JOB_STANDING_WAITING"], ["JOB_STANDING_HELD", "NOPE"], [], {}, {"jobId": "x"}),
)


class Asked(NamedTuple):
    """A tool, and what it is asked by."""

    tool: str
    arguments: Mapping[str, Any]


def text_of(found: CallToolResult) -> str:
    [content] = found.content
    assert isinstance(content, TextContent)
    return content.text


@asynccontextmanager
async def both_over(region: Region) -> AsyncIterator[tuple[Client, HttpClient]]:
    """A client of the tools and one of HTTP, over the same services."""
    handlers = region.handlers()
    async with (
        served(handlers["coplace.v1.PlacementService"]) as of_placement,
        served(handlers["coplace.v1.EnergyService"]) as of_energy,
        served(handlers["coplace.v1.IngestService"]) as of_ingest,
        served(handlers["coplace.v1.HistoryService"]) as of_history,
        served(handlers["coplace.v1.WebhookService"]) as of_webhooks,
        rest_over(region) as over_http,
    ):
        channels = {
            "PlacementService": of_placement,
            "EnergyService": of_energy,
            "IngestService": of_ingest,
            "HistoryService": of_history,
            "WebhookService": of_webhooks,
        }

        async def asked(route: Route, arguments: object) -> Message:
            return await ask(channels[route.method.containing_service.name], route, arguments)

        async with Client(server(asked)) as client:
            yield client, over_http


async def over_http(client: HttpClient, asked: Asked) -> tuple[bool, str]:
    """Whether it is refused, and the document."""
    route = questions()[asked.tool]
    if route.body is not None:
        answer = await client.post(route.path, asked.arguments)
    else:
        named = {route.request.fields_by_name[each].json_name: each for each in route.path_fields}
        path = route.path.format(
            **{field: quote(asked.arguments[name], safe="") for name, field in named.items()}
        )
        query = {name: value for name, value in asked.arguments.items() if name not in named}
        texts = urlencode({name: _text(value) for name, value in query.items()}, doseq=True)
        answer = await client.get(f"{path}?{texts}")
    return answer.status >= 400, answer.body.decode()


def _text(value: object) -> object:
    if isinstance(value, list):
        return [_text(each) for each in value]
    return json.dumps(value) if isinstance(value, bool | float) else value


def drawn(seed: int, each: int) -> list[Asked]:
    """Questions of every tool, so many of each: each argument alone, and several together."""
    draw, found = random.Random(seed), list[Asked]()
    for tool, route in questions().items():
        names = [field.json_name for field in route.request.fields]
        for number in range(each):
            few = draw.sample(names, min(len(names), draw.randint(1, 2))) if names else []
            if names and number < len(names):
                few = [names[number]]
            found.append(Asked(tool, {name: draw.choice(_VALUES) for name in few}))
    return found


def _is_same_over_http(asked: Asked) -> bool:
    """Whether HTTP can be asked the same: its paths and queries have texts alone."""
    route = questions()[asked.tool]
    if route.body is not None:
        return True
    fields = {field.json_name: field for field in route.request.fields}
    path = [route.request.fields_by_name[each].json_name for each in route.path_fields]
    if not all(isinstance(value := asked.arguments.get(name), str) and value for name in path):
        return False
    return all(_fits(fields[name], value) for name, value in asked.arguments.items())


def _fits(field: FieldDescriptor, value: object) -> bool:
    """Whether a query can say a value of this type as JSON does."""
    if field.is_repeated:
        return isinstance(value, list) and bool(value)
    if field.type == FieldDescriptor.TYPE_BOOL:
        return isinstance(value, bool)
    if field.type in (FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_INT32):
        return isinstance(value, int) and not isinstance(value, bool)
    return field.message_type is None and isinstance(value, str)


@pytest.mark.parametrize("each", [5, pytest.param(30, marks=pytest.mark.rest)])
async def test_drawn_questions_have_the_documents_of_http(each: int) -> None:
    processor = placement(policy=Policy.BASE)
    jobs = (submitted(name, T0_US + n, nodes=4, user="ada") for n, name in enumerate(JOBS))
    round_of(processor, 0, limits(LIMIT_SUBJECT_USER, "ada", most_nodes=64), *jobs)
    every = drawn(1, each)
    compared = answered = 0
    async with both_over(Region(placement=processor)) as (client, http):
        for asked in every:
            found = await client.call_tool(asked.tool, dict(asked.arguments))
            assert json.loads(text_of(found)) == found.structured_content
            answered += not found.is_error
            if _is_same_over_http(asked):
                assert (found.is_error, text_of(found)) == await over_http(http, asked), asked
                compared += 1
    assert len(every) == each * len(questions())
    assert compared >= len(every) / 2
    assert answered >= len(every) / 4


async def test_every_tool_says_that_it_only_reads_and_what_it_takes() -> None:
    for tool in tools():
        Draft202012Validator.check_schema(tool.input_schema)
        assert tool.description
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint
    assert {"explain", "list_jobs", "list_clusters", "quote", "project"} <= questions().keys()
    assert not {"publish", "watch_decisions"} & questions().keys()


async def test_a_wrong_argument_is_named_and_an_unknown_tool_is_an_error() -> None:
    async with both_over(Region(placement=placement())) as (client, _):
        wrong = await client.call_tool("list_jobs", {"usr": "ada", "most": "many"})
        with pytest.raises(MCPError, match="no tool 'cancel': there are"):
            await client.call_tool("cancel", {"jobId": JOBS[0]})
    assert wrong.is_error
    assert [each["field"] for each in wrong.structured_content["errors"]] == ["usr", "most"]


async def test_a_user_sees_own_jobs_alone(tmp_path: Path) -> None:
    folder = certificate_authority(tmp_path)
    identity(folder, "server")
    token_file = tmp_path / "ada.token"
    async with guarded(folder) as rest:
        token_file.write_text(rest.tokens["ada"])
        files = GrpcFiles(grpc_ca_file=folder / "ca.pem", grpc_token_file=token_file)
        addresses = {"coplace.v1.PlacementService": rest.address}
        async with Client(server(asking(addresses, files))) as client:
            own = await client.call_tool("explain", {"jobId": "site/p1/1/1767225600"})
            others = await client.call_tool("explain", {"jobId": "site/p1/2/1767225600"})
            unknown = await client.call_tool("explain", {"jobId": "site/p1/nobody's"})
            every = await client.call_tool("list_jobs", {})
    assert not own.is_error
    for refused in (others, unknown, every):
        assert refused.is_error
        assert refused.structured_content["type"] == "urn:coplace:problem:permission-denied"
        assert "bob" not in text_of(refused)


async def test_services_that_are_not_there_are_a_problem() -> None:
    addresses = {"coplace.v1.PlacementService": "127.0.0.1:1"}
    async with Client(server(asking(addresses, GrpcFiles()))) as client:
        found = await client.call_tool("list_clusters", {})
    assert found.is_error
    assert found.structured_content["status"] == 503


@pytest.mark.rest
async def test_the_command_answers_over_stdin_and_stdout() -> None:
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0, submitted(JOBS[0], T0_US, user="ada"))
    with Served(processor) as address:
        code = "from cli.main import app; app()"
        environment = {"COPLACE_PLACEMENT_ADDRESS": address, "PYTHONPATH": ":".join(sys.path)}
        command = StdioServerParameters(
            command=sys.executable, args=["-c", code, "mcp"], env=environment
        )
        async with Client(command) as client:
            listed = await client.list_tools()
            found = await client.call_tool("list_jobs", {"user": "ada"})
    assert {each.name for each in listed.tools} == questions().keys()
    assert [job["jobId"] for job in found.structured_content["jobs"]] == [JOBS[0]]

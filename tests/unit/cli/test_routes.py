"""Whatever the command line asks or changes in a region, HTTP does too."""

from pathlib import Path
from typing import Any

import grpc
import pytest
from coplace.v1.placement_service_pb2 import ListClustersResponse, ListedCluster

from services.rest.routes import routes
from tests.unit.cli.orders import AT_THE_DOOR, ORDERS, commands, path_of
from tests.unit.cli.owners import Region
from tests.unit.cli.routes import (
    ASKED,
    WITHOUT,
    WithoutRoute,
    page,
    published,
    questions,
    routes_of,
)
from tests.unit.cli.test_orders import folder, region, run, topics

PAGE = Path(__file__).parents[3] / "docs" / "commands-over-http.md"
__all__ = ["folder", "region", "topics"]
_HISTORY = {
    "history accounts": "history accounts",
    "history audit": "history audit",
    "history charges": "history charges",
    "history jobs": "history jobs",
    "history statement": "history statement physics",
    "history story": "history story a",
}


def test_every_command_has_a_route_or_says_why_it_has_none() -> None:
    every = {" ".join(path) for path, _ in commands()}
    reached = {*ASKED, *published()}
    assert reached & set(WITHOUT) == set()
    assert reached | set(WITHOUT) == every, "give it a line in tests/unit/cli/routes.py"
    assert set(WITHOUT.values()) <= set(WithoutRoute)


def test_every_command_that_publishes_has_the_route_of_its_event() -> None:
    for command, kinds in published().items():
        found = {route.operation for route in routes_of(command) if route.payload}
        assert found == set(kinds), command


def test_no_command_that_speaks_to_a_service_is_left_without_a_route() -> None:
    asked = {path_of(words) for words in (*ORDERS, *AT_THE_DOOR)} | set(questions()) | set(_HISTORY)
    assert asked & set(WITHOUT) == set()


class Asked(grpc.GenericRpcHandler):
    """Notes what is called, and answers that there is one cluster and nothing else."""

    def __init__(self) -> None:
        self.methods: list[str] = []

    def service(self, details: Any) -> Any:
        self.methods.append(str(details.method).rpartition("/")[2])

        one = ListClustersResponse(clusters=[ListedCluster(name="p1")]).SerializeToString()
        found = one if self.methods[-1] == "ListClusters" else b""

        async def answer(_request: bytes, _context: Any) -> bytes:
            return found

        return grpc.unary_unary_rpc_method_handler(answer)


@pytest.mark.parametrize(("command", "words"), {**questions(), **_HISTORY}.items())
def test_a_command_asks_the_very_method_that_its_route_asks(
    command: str, words: str, folder: Path, region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked()
    address = region._serve(asked)
    monkeypatch.setenv("COPLACE_HISTORY_ADDRESS", address)
    run(words, folder, address, address)
    # Some look whether there is such a cluster.
    assert {*asked.methods} - {"ListClusters"} == {ASKED[command]} - {"ListClusters"}
    assert ASKED[command] in asked.methods
    assert [route.method.name for route in routes_of(command)] == [ASKED[command]]


def test_every_route_is_of_a_command_or_of_a_resource_manager() -> None:
    of_commands = {
        route.operation for command in (*ASKED, *published()) for route in routes_of(command)
    }
    left = {route.operation for route in routes()} - of_commands
    # Facts of resource managers and agents, plans, and what watches them: no command sends those.
    assert left == {
        *("ClusterDeclared", "ClusterLost", "ClusterReturned", "JobRequeued", "ManagerAlive"),
        *("JobStarted", "JobDeclined", "NodePowerDeclared"),
        *("JobActionDone", "JobActionRefused", "JobsReordered"),
        "JobLimitChanged",
        *("NodeSamples", "ShuttersMeasured", "PlanProposed"),
        *("ShowAccount", "WatchDecisions"),
    }


def test_the_table_of_commands_and_routes_is_up_to_date() -> None:
    assert page() in PAGE.read_text(), f"put this into {PAGE.name}:\n{page()}"

"""Each API server shows what is in the queue there, and nothing hangs on it."""

from collections.abc import Mapping
from typing import Any

from services.kubernetes.adapters.queues import QueueReporter
from services.kubernetes.model.queues import QueueCounts
from shared.kubernetes.api import ApiMissingError, ApiRefusedError


class Server:
    """It has the object of a queue once that is created, where it has the kind."""

    def __init__(self, *, has_kind: bool = True) -> None:
        self.has_kind = has_kind
        self.objects: dict[str, Any] = {}
        self.patches = 0

    async def create_queue(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        if not self.has_kind:
            raise ApiMissingError("the server has no such resource")
        self.objects[body["metadata"]["name"]] = dict(body)
        return body

    async def patch_queue(self, name: str, status: Mapping[str, Any]) -> Mapping[str, Any]:
        if name not in self.objects:
            raise ApiMissingError(f"{name} is missing")
        self.patches += 1
        self.objects[name]["status"] = dict(status)
        found: Mapping[str, Any] = self.objects[name]
        return found


async def test_a_queue_is_created_once_and_written_when_it_changes() -> None:
    server, counts = Server(), {"alpha": QueueCounts(waiting=3)}
    reporter = QueueReporter({"alpha": server}, "north", "coplace", lambda: counts)
    await reporter.look()
    await reporter.look()
    assert server.patches == 1
    shown = server.objects["coplace"]
    assert shown["spec"] == {"site": "north", "cluster": "alpha"}
    assert shown["status"]["waiting"] == 3
    counts["alpha"] = QueueCounts(admitted=3, running=2)
    await reporter.look()
    assert server.objects["coplace"]["status"]["running"] == 2


async def test_a_queue_without_jobs_is_shown_as_empty() -> None:
    server = Server()
    await QueueReporter({"alpha": server}, "north", "coplace", dict).look()
    assert set(server.objects["coplace"]["status"].values()) == {0}


async def test_what_an_api_server_does_not_take_is_tried_again_and_stops_nothing() -> None:
    wrong, good = Server(has_kind=False), Server()
    apis = {"alpha": wrong, "beta": good}
    reporter = QueueReporter(apis, "north", "coplace", dict)
    await reporter.look()
    assert good.patches == 1
    wrong.has_kind = True
    await reporter.look()
    assert (wrong.patches, good.patches) == (1, 1)


async def test_a_refusal_is_no_end() -> None:
    class Refusing(Server):
        async def patch_queue(self, name: str, status: Mapping[str, Any]) -> Mapping[str, Any]:
            raise ApiRefusedError("forbidden")

    await QueueReporter({"alpha": Refusing()}, "north", "coplace", dict).look()

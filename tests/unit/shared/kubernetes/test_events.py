"""Events reach their API servers beside the work that they are about."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from shared.kubernetes import events
from shared.kubernetes.api import ApiUnavailableError
from shared.kubernetes.events import UserEvents, user_event


class Server:
    """Takes events, but those about `refused`, once it `answers`."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.answers = asyncio.Event()
        self.refused = ""

    async def tell(self, namespace: str, event: Mapping[str, Any]) -> None:
        await self.answers.wait()
        if event["involvedObject"]["name"] == self.refused:
            raise ApiUnavailableError("cut")
        self.names.append(f"{namespace}/{event['involvedObject']['name']}")


def about(name: str) -> Mapping[str, Any]:
    told = {"kind": "Job", "name": name, "namespace": "physics", "uid": "1"}
    return user_event(told, "Queued", "it waits", "2026-01-01T00:00:00Z", is_warning=False)


async def test_a_slow_server_holds_up_its_own_events_alone() -> None:
    slow, quick = Server(), Server()
    quick.answers.set()
    found = UserEvents({"slow": slow, "quick": quick})
    running = asyncio.create_task(found.run())
    for number in range(3):
        found.add("slow", about(f"s{number}"))
        found.add("quick", about(f"q{number}"))
    await asyncio.sleep(0.01)
    assert sorted(quick.names) == ["physics/q0", "physics/q1", "physics/q2"]
    assert not slow.names
    slow.answers.set()
    await asyncio.sleep(0.01)
    assert sorted(slow.names) == ["physics/s0", "physics/s1", "physics/s2"]
    running.cancel()


async def test_an_event_that_is_refused_is_lost_alone() -> None:
    server = Server()
    server.answers.set()
    server.refused = "b"
    found = UserEvents({"alpha": server})
    for name in ("a", "b", "c"):
        found.add("alpha", about(name))
    await found.work_off()
    assert server.names == ["physics/a", "physics/c"]


async def test_what_comes_behind_too_many_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_MOST_WAITING", 2)
    server = Server()
    server.answers.set()
    found = UserEvents({"alpha": server})
    for name in ("a", "b", "c"):
        found.add("alpha", about(name))
    await found.work_off()
    assert server.names == ["physics/a", "physics/b"]

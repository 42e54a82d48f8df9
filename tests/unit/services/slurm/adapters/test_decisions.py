"""Decisions are obeyed once a cursor, those of a job in order; a kill at any moment loses none."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import grpc
import pytest
from coplace.v1.placement_pb2 import PlacementDecided
from coplace.v1.watch_service_pb2 import WatchDecisionsRequest
from structlog.testing import capture_logs

from coplace_client.decisions import WatchedDecision
from services.slurm.adapters.cursor import CursorFile
from services.slurm.adapters.decisions import DecisionsInHand
from tests.unit.services.slurm.region import unanswered


class PlayedWatch:
    """Has decisions, whose cursors are their places; it then waits, or ends with a failure."""

    def __init__(self, decisions: Sequence[PlacementDecided], *failures: Exception) -> None:
        self.decisions, self.failures = decisions, list(failures)
        self.requests: list[WatchDecisionsRequest] = []
        self.cursor, self.is_silent = "", False

    def __call__(self, request: WatchDecisionsRequest) -> "PlayedWatch":
        self.requests.append(request)
        self.cursor = request.cursor
        return self

    async def __aiter__(self) -> AsyncIterator[WatchedDecision]:
        for at in range(int(self.cursor or 0), len(self.decisions)):
            if self.failures:
                raise self.failures.pop(0)
            self.cursor = str(at + 1)
            yield WatchedDecision(self.decisions[at], self.cursor)
            await asyncio.sleep(0)
        await asyncio.sleep(60)


def decided(job_id: str, grant: int) -> PlacementDecided:
    return PlacementDecided(job_id=job_id, grant=grant)


async def ran_for(reader: DecisionsInHand, obey: object, time_s: float) -> None:
    running = asyncio.create_task(reader.run(obey))  # type: ignore[arg-type]
    await asyncio.wait([running], timeout=time_s)
    running.cancel()
    await asyncio.wait([running])
    if not running.cancelled() and (error := running.exception()):
        raise error


def test_a_kill_at_any_moment_loses_no_decision_and_keeps_the_order_of_a_job(
    tmp_path: Path,
) -> None:
    draw = random.Random(7)
    watch = PlayedWatch([decided(f"j{n % 5}", n) for n in range(200)])
    obeyed: dict[str, list[int]] = {}

    async def obey(decision: PlacementDecided) -> None:
        await asyncio.sleep(draw.random() * 0.004)
        obeyed.setdefault(decision.job_id, []).append(decision.grant)

    file = tmp_path / "cursor"
    while CursorFile(file).read() != "200":
        reader = DecisionsInHand(watch, "north", {"alpha"}, CursorFile(file))
        asyncio.run(ran_for(reader, obey, draw.random() * 0.03))
        if not draw.randrange(4) and file.exists():  # it was killed before it kept the last
            file.write_text(str(max(0, int(file.read_text()) - draw.randrange(9))))
    for job_id, grants in obeyed.items():
        assert set(grants) == {n for n in range(200) if f"j{n % 5}" == job_id}
        first = list(dict.fromkeys(grants))
        assert first == sorted(first)
    assert watch.requests[0].from_earliest
    assert not watch.requests[-1].from_earliest


def test_a_job_that_waits_holds_up_no_other_and_the_cursor_stays_before_it(tmp_path: Path) -> None:
    watch = PlayedWatch([decided("a", 1), decided("b", 1), decided("a", 2), decided("c", 1)])
    obeyed: list[str] = []

    async def obey(decision: PlacementDecided) -> None:
        if (decision.job_id, decision.grant) == ("b", 1):
            await asyncio.sleep(60)
        obeyed.append(f"{decision.job_id}{decision.grant}")

    file = CursorFile(tmp_path / "cursor")
    asyncio.run(ran_for(DecisionsInHand(watch, "north", {"alpha"}, file), obey, 0.1))
    assert obeyed == ["a1", "a2", "c1"]
    assert file.read() == "1"


@pytest.mark.parametrize(
    ("code", "expected"),
    [(grpc.StatusCode.OUT_OF_RANGE, ["2", ""]), (grpc.StatusCode.INVALID_ARGUMENT, ["2", ""])],
)
def test_a_cursor_that_is_lost_lets_all_decisions_be_read_again(
    code: grpc.StatusCode, expected: list[str], tmp_path: Path
) -> None:
    file = CursorFile(tmp_path / "cursor")
    file.keep("2")
    watch = PlayedWatch([decided(f"j{n}", 1) for n in range(4)], unanswered(code, "no"))
    obeyed: list[str] = []

    async def obey(decision: PlacementDecided) -> None:
        obeyed.append(decision.job_id)

    asyncio.run(ran_for(DecisionsInHand(watch, "north", {"alpha"}, file), obey, 0.1))
    assert [each.cursor for each in watch.requests] == expected
    assert obeyed == ["j0", "j1", "j2", "j3"]


def test_a_cursor_that_can_not_be_kept_stops_nothing(tmp_path: Path) -> None:
    class Full(CursorFile):
        def keep(self, cursor: str) -> None:
            raise OSError("No space left on device")

    watch, obeyed = PlayedWatch([decided(f"j{n}", 1) for n in range(4)]), []

    async def obey(decision: PlacementDecided) -> None:
        obeyed.append(decision.job_id)

    with capture_logs() as logs:
        reader = DecisionsInHand(watch, "north", {"alpha"}, Full(tmp_path / "cursor"))
        asyncio.run(ran_for(reader, obey, 0.1))
    assert obeyed == ["j0", "j1", "j2", "j3"]
    assert "No space left on device" in logs[0]["problem"]

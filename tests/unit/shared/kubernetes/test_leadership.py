"""Of several processes one leads, and another takes over within the time that is declared."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.errors import WrongSettingsError
from coplace_client.health import Readiness
from shared.kubernetes.api import (
    ApiConflictError,
    ApiMissingError,
    ApiRefusedError,
    ApiServer,
    ApiUnavailableError,
)
from shared.kubernetes.leadership import LeaderSettings, Leadership, LeadershipLostError
from shared.kubernetes.leases import LeaseName

NAME = LeaseName("coplace", "region-kubernetes")
TAKEOVER_S = 10.0


class Api(ApiServer):
    """Has one Lease, with versions, or none; it may not answer, or lose an answer."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.error: Exception | None = None
        self.is_answer_lost = False

    async def read(self, path: str) -> Mapping[str, Any]:
        await asyncio.sleep(0)
        if self.error:
            raise self.error
        if self.lease is None:
            raise ApiMissingError(path)
        return {"metadata": {"resourceVersion": str(self.version)}, "spec": dict(self.lease)}

    async def merge(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        found = await self.read(path)
        if body["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]:
            raise ApiConflictError("another version")
        return await self._written({**found["spec"], **body["spec"]})

    async def add(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.lease is not None:
            raise ApiConflictError("it is there")
        return await self._written(dict(body["spec"]))

    async def _written(self, spec: dict[str, Any]) -> Mapping[str, Any]:
        self.lease, self.version = spec, self.version + 1
        if self.is_answer_lost:
            raise ApiUnavailableError("no answer")
        return await self.read("")


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def of(api: Api, clock: Clock, holder: str) -> Leadership:
    return Leadership(api, NAME, TAKEOVER_S, holder, clock)


async def test_the_first_leads_and_the_second_stands_by_while_it_goes_on() -> None:
    api, clock = Api(), Clock()
    one, other = of(api, clock, "one"), of(api, clock, "other")
    assert await one.attempt()
    for _ in range(50):
        clock.now_s += 1
        await one.renew()
        assert not await other.attempt()
    assert api.lease is not None
    assert api.lease["holderIdentity"] == "one"


@given(first_look_s=st.floats(0, 1), died_s=st.floats(0, 30))
async def test_another_leads_within_the_time_once_it_is_silent_and_not_before_it_gave_up(
    first_look_s: float, died_s: float
) -> None:
    api, clock = Api(), Clock()
    one, other = of(api, clock, "one"), of(api, clock, "other")
    await one.attempt()
    renewals = [each for each in range(1, 31) if each <= died_s]
    looks = [first_look_s + each for each in range(60)]
    last_s, took_s = 0.0, None
    for at_s, is_look in sorted([(float(r), False) for r in renewals] + [(x, True) for x in looks]):
        clock.now_s = at_s
        if not is_look:
            await one.renew()
            last_s = at_s
        elif await other.attempt():
            took_s = at_s
            break
    assert took_s is not None
    assert 0.6 * TAKEOVER_S <= took_s - last_s <= TAKEOVER_S
    with pytest.raises(LeadershipLostError):
        await one.renew()


async def test_one_that_cannot_renew_gives_up_before_another_may_lead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api, clock = Api(), Clock()
    one = of(api, clock, "one")
    await one.attempt()
    api.error = ApiUnavailableError("cut")

    async def sleep(pause_s: float) -> None:
        clock.now_s += pause_s

    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(LeadershipLostError):
        await one.keep()
    assert 0.5 * TAKEOVER_S <= clock.now_s <= 0.6 * TAKEOVER_S


async def test_one_that_was_busy_for_long_leads_on_where_nobody_took_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api, clock = Api(), Clock()
    one = of(api, clock, "one")
    await one.attempt()
    pauses_s = iter((5 * TAKEOVER_S, 1.0))

    async def sleep(pause_s: float) -> None:
        if pause_s:
            clock.now_s += next(pauses_s)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await one.keep()
    assert not await of(api, clock, "other").attempt()


async def test_one_that_is_stopped_lets_another_lead_at_once() -> None:
    api, clock = Api(), Clock()
    one, other = of(api, clock, "one"), of(api, clock, "other")
    await one.attempt()
    assert not await other.attempt()
    await one.release()
    assert await other.attempt()


async def test_of_two_that_see_silence_one_leads() -> None:
    api, clock = Api(), Clock()
    api.lease = {"holderIdentity": "gone", "renewTime": "then"}
    both = [of(api, clock, name) for name in ("one", "other")]
    assert [await each.attempt() for each in both] == [False, False]
    clock.now_s = TAKEOVER_S
    # Both read before either writes.
    took = await asyncio.gather(*(each.attempt() for each in both), return_exceptions=True)
    assert [type(each) for each in took] == [bool, ApiConflictError]
    with pytest.raises(LeadershipLostError):
        await both[1].renew()


async def test_a_renewal_whose_answer_was_lost_is_no_loss() -> None:
    api, clock = Api(), Clock()
    one = of(api, clock, "one")
    await one.attempt()
    api.is_answer_lost = True
    with pytest.raises(ApiUnavailableError):
        await one.renew()
    api.is_answer_lost = False
    await one.renew()
    await one.renew()
    assert await one.attempt()


async def test_while_nobody_can_know_who_leads_none_takes_over() -> None:
    api, clock = Api(), Clock()
    stop, readiness = asyncio.Event(), Readiness()
    other = of(api, clock, "other")
    api.lease = {"holderIdentity": "one", "renewTime": "then"}
    assert not await other.attempt()
    clock.now_s, api.error = 2 * TAKEOVER_S, ApiRefusedError("no right to leases")
    waiting = asyncio.create_task(other.taken(stop, readiness))
    await asyncio.sleep(0.01)
    assert "no right to leases" in readiness.waiting_for
    api.error = None
    assert not await other.attempt()
    waiting.cancel()
    with suppress(asyncio.CancelledError):
        await waiting


async def test_one_that_stands_by_is_ready_and_stops_when_it_is_asked_to() -> None:
    api, clock = Api(), Clock()
    api.lease = {"holderIdentity": "one", "renewTime": "then"}
    stop, readiness = asyncio.Event(), Readiness()
    waiting = asyncio.create_task(of(api, clock, "other").taken(stop, readiness))
    await asyncio.sleep(0.01)
    assert readiness.waiting_for == ""
    stop.set()
    assert await waiting is False


@pytest.mark.parametrize("lease", ["region", "Coplace/region", "a/b/c", "/region"])
def test_a_lease_has_a_namespace_and_a_name(lease: str) -> None:
    with pytest.raises(WrongSettingsError):
        LeaderSettings(leader_lease=lease)
    assert LeaderSettings(leader_lease="coplace/region-kubernetes").takeover_s == 15

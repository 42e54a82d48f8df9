"""A Lease says that its holder goes on."""

from collections.abc import Mapping
from typing import Any

import pytest

from shared.kubernetes.api import ApiMissingError, ApiServer, ApiUnavailableError
from shared.kubernetes.leases import LeaseName, LeaseWatch, renew, renewed

NAME = LeaseName("coplace", "coplace-kueue")
LEASES = "/apis/coordination.k8s.io/v1/namespaces/coplace/leases"


class Api(ApiServer):
    """Has one Lease, or none, or does not answer."""

    def __init__(self) -> None:
        self.objects: dict[str, Mapping[str, Any]] = {}
        self.is_cut = False

    async def read(self, path: str) -> Mapping[str, Any]:
        if self.is_cut:
            raise ApiUnavailableError("cut")
        if path not in self.objects:
            raise ApiMissingError(path)
        return self.objects[path]

    async def merge(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        self.objects[path] = {**await self.read(path), **body}
        return self.objects[path]

    async def add(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        self.objects[f"{path}/{body['metadata']['name']}"] = body
        return body


async def test_it_is_created_once_and_renewed_then() -> None:
    api = Api()
    assert await renewed(api, NAME) == ""
    for _ in range(2):
        await renew(api, NAME, "north/kueue", 30)
    [(path, lease)] = api.objects.items()
    assert path == f"{LEASES}/coplace-kueue"
    assert lease["spec"]["holderIdentity"] == "north/kueue"
    assert (await renewed(api, NAME)).endswith(".000000Z")


async def test_its_holder_is_silent_once_it_was_not_renewed_for_so_long() -> None:
    api, now = Api(), [0.0]
    watch = LeaseWatch(api, NAME, 60, lambda: now[0])
    for at_s, text, is_silent in ((50, "a", False), (100, "a", False), (111, "a", True)):
        now[0] = at_s
        api.objects[f"{LEASES}/coplace-kueue"] = {"spec": {"renewTime": text}}
        await watch.look()
        assert watch.is_silent is is_silent
    api.objects[f"{LEASES}/coplace-kueue"] = {"spec": {"renewTime": "b"}}
    await watch.look()
    assert not watch.is_silent


async def test_one_that_never_was_renewed_is_silent_too() -> None:
    now = [0.0]
    watch = LeaseWatch(Api(), NAME, 60, lambda: now[0])
    now[0] = 61
    await watch.look()
    assert watch.is_silent
    assert not watch.was_renewed


async def test_while_nobody_can_know_it_counts_anew() -> None:
    api, now = Api(), [0.0]
    watch = LeaseWatch(api, NAME, 60, lambda: now[0])
    api.is_cut, now[0] = True, 100
    with pytest.raises(ApiUnavailableError):
        await watch.look()
    assert not watch.is_silent
    api.is_cut, now[0] = False, 159
    await watch.look()
    assert not watch.is_silent

"""A Lease of coordination.k8s.io, by which one process sees that another goes on."""

import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from shared.domain.times import in_utc
from shared.kubernetes.api import ApiError, ApiMissingError, ApiServer
from shared.kubernetes.objects import mapping_of

_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"


class LeaseName(NamedTuple):
    """Namespace and name of a Lease."""

    namespace: str
    name: str

    @property
    def path(self) -> str:
        """Return where the leases of its namespace are."""
        return _LEASES.format(quote(self.namespace))


async def renew(api: ApiServer, lease: LeaseName, holder: str, lasts_s: int) -> None:
    """Say that its holder goes on. Raises ApiError."""
    now = f"{in_utc(time.time() // 1).removesuffix('Z')}.000000Z"
    spec: dict[str, Any] = {"holderIdentity": holder, "renewTime": now}
    spec["leaseDurationSeconds"] = lasts_s
    try:
        await api.merge(f"{lease.path}/{quote(lease.name)}", {"spec": spec})
    except ApiMissingError:
        about = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        await api.add(lease.path, {**about, "metadata": {"name": lease.name}, "spec": spec})


async def renewed(api: ApiServer, lease: LeaseName) -> str:
    """Return when its holder went on last; empty where it never did. Raises ApiError."""
    try:
        told = await api.read(f"{lease.path}/{quote(lease.name)}")
    except ApiMissingError:
        return ""
    return str(mapping_of(told.get("spec")).get("renewTime") or "")


class LeaseWatch:
    """For how long the holder of a Lease has been silent, by this process's own clock: those of
    others may be wrong. While the API server does not answer nobody knows, and it counts anew."""

    def __init__(
        self,
        api: ApiServer,
        lease: LeaseName,
        after_s: float,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api, self._lease, self._after_s = api, lease, after_s
        self._monotonic_s = monotonic_s
        self._renewed, self._since_s = "", monotonic_s()

    @property
    def silent_s(self) -> float:
        """Return for how long it has been silent, s."""
        return self._monotonic_s() - self._since_s

    @property
    def was_renewed(self) -> bool:
        """Return whether it was seen to go on, ever."""
        return bool(self._renewed)

    @property
    def is_silent(self) -> bool:
        """Return whether it has been silent for longer than it may be."""
        return self.silent_s > self._after_s

    async def look(self) -> None:
        """Look at the Lease once. Raises ApiError."""
        try:
            found = await renewed(self._api, self._lease)
        except ApiError:
            self._since_s = self._monotonic_s()
            raise
        if found != self._renewed:
            self._renewed, self._since_s = found, self._monotonic_s()

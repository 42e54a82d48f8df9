"""Of several processes one leads, by a Lease of coordination.k8s.io; the others are on standby."""

import asyncio
import secrets
import socket
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

import structlog
from pydantic import Field

from coplace_client.health import Readiness
from coplace_client.life import pause
from shared.domain.times import in_utc
from shared.kubernetes.api import ApiConflictError, ApiError, ApiMissingError, ApiServer
from shared.kubernetes.leases import LeaseName
from shared.kubernetes.objects import mapping_of
from shared.process.environment import EnvironmentSettings
from shared.process.life import Process

# Shares of the time within which another leads. Who leads gives up before others take the Lease:
# these look, see silence for so long, look again, and write.
_LOOKS: Final = 0.1
_ANSWERS: Final = 0.2
_GIVES_UP: Final = 0.5
_LASTS: Final = 0.6

log = structlog.get_logger(__name__)


class LeaderSettings(EnvironmentSettings):
    """Settings of a process of which others may be on standby."""

    leader_lease: str = Field(
        "",
        pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$",
        description="NAMESPACE/NAME of the Lease by which one of several processes leads; empty: "
        "there is one",
    )
    takeover_s: float = Field(
        15.0, ge=5, le=600, description="Within which another leads, once one is silent"
    )


class LeadershipLostError(Exception):
    """Another process may lead: this one has to end."""


class Leadership:
    """Of one process. Others are silent by this process's own clock: theirs may be wrong."""

    def __init__(
        self,
        api: ApiServer,
        lease: LeaseName,
        takeover_s: float,
        holder: str,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api, self._lease, self._takeover_s = api, lease, takeover_s
        self._path = f"{lease.path}/{lease.name}"
        self.holder, self._monotonic_s = holder, monotonic_s
        self._version, self._seen = "", ("", "")
        self._since_s = monotonic_s()

    @property
    def looks_every_s(self) -> float:
        """Return how often the Lease is read or renewed, s."""
        return self._takeover_s * _LOOKS

    async def attempt(self) -> bool:
        """Look at the Lease once, and take it where nobody leads; return whether this process does.
        Raises ApiError."""
        began_s = self._monotonic_s()
        try:
            holder, renewed = await self._read()
        except ApiMissingError:
            about = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
            body = {**about, "metadata": {"name": self._lease.name}, "spec": self._spec()}
            self._note(await self._api.add(self._lease.path, body), began_s)
            return True
        is_silent = began_s - self._since_s > self._takeover_s * _LASTS
        if (holder, renewed) != self._seen:
            self._seen, self._since_s, is_silent = (holder, renewed), self._monotonic_s(), False
        if holder not in ("", self.holder) and not is_silent:
            return False
        self._note(await self._write(self._spec()), began_s)
        return True

    async def renew(self) -> None:
        """Say that this process goes on. Raises ApiError, LeadershipLostError."""
        began_s = self._monotonic_s()
        try:
            self._note(await self._write(self._spec()), began_s)
        except (ApiConflictError, ApiMissingError) as error:
            # Of its own writes one may have been done that was not answered.
            if isinstance(error, ApiMissingError) or (await self._read())[0] != self.holder:
                raise LeadershipLostError(f"another took {self._path}") from error

    async def release(self) -> None:
        """Let another lead at once. Raises ApiError."""
        await self._write({"holderIdentity": ""})

    async def taken(self, stop: asyncio.Event, readiness: Readiness) -> bool:
        """Return True when this process leads, False when it shall stop. One on standby does
        what it is for and is ready: an upgrade may go on to the next."""
        while not stop.is_set():
            try:
                async with asyncio.timeout(self._takeover_s * _ANSWERS):
                    if await self.attempt():
                        log.info("leads", lease=self._path, holder=self.holder)
                        return True
            except ApiConflictError:
                log.info("another was faster", lease=self._path)
            except (ApiError, TimeoutError) as error:
                # Nobody knows who leads meanwhile: it counts anew.
                self._since_s = self._monotonic_s()
                readiness.wait_for(f"the Lease {self._path}: {str(error) or 'no answer'}")
            else:
                readiness.ready()
            await pause(stop, self.looks_every_s)
        return False

    async def keep(self) -> None:
        """Renew the Lease, until cancelled. Raises LeadershipLostError where that was not possible
        for so long that another may take it soon."""
        while True:
            await asyncio.sleep(self.looks_every_s)
            # One that was busy or paused for longer asks too: nobody may have taken it meanwhile.
            left_s = self._since_s + self._takeover_s * _GIVES_UP - self._monotonic_s()
            try:
                async with asyncio.timeout(max(left_s, self.looks_every_s)):
                    await self.renew()
            except (ApiError, TimeoutError) as error:
                problem = str(error) or "no answer"
                log.warning("lease not renewed", lease=self._path, problem=problem)
                if self._monotonic_s() - self._since_s >= self._takeover_s * _GIVES_UP:
                    raise LeadershipLostError(f"{self._path}: {problem}") from error

    def _spec(self) -> Mapping[str, Any]:
        second, ns = divmod(time.time_ns(), 10**9)
        now = f"{in_utc(second).removesuffix('Z')}.{ns // 1000:06}Z"
        lasts_s = max(1, round(self._takeover_s * _LASTS))
        return {"holderIdentity": self.holder, "renewTime": now, "leaseDurationSeconds": lasts_s}

    async def _read(self) -> tuple[str, str]:
        """Return its holder and since when; writes are of what was read."""
        found = await self._api.read(self._path)
        self._version, spec = found["metadata"]["resourceVersion"], mapping_of(found.get("spec"))
        return str(spec.get("holderIdentity") or ""), str(spec.get("renewTime") or "")

    async def _write(self, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        """Write it where nobody has written since."""
        about = {"resourceVersion": self._version}
        return await self._api.merge(self._path, {"metadata": about, "spec": spec})

    def _note(self, found: Mapping[str, Any], since_s: float) -> None:
        self._version, self._since_s = found["metadata"]["resourceVersion"], since_s


async def work_while_leading(
    process: Process,
    name: str,
    own: LeaderSettings,
    api: ApiServer,
    work: Callable[[], Coroutine[Any, Any, None]],
) -> None:
    """Wait until this process leads, then work until it shall stop. One that no longer leads
    ends at once, as from a crash."""
    if not own.leader_lease:
        await process.run_until_stopped(name, work())
        return
    holder = f"{socket.gethostname()}_{secrets.token_hex(4)}"
    lease = LeaseName(*own.leader_lease.split("/"))
    leadership = Leadership(api, lease, own.takeover_s, holder)
    if await leadership.taken(process.stop, process.readiness):
        process.readiness.wait_for("what it leads")
        await process.run_until_stopped(name, _led(leadership, work))
        try:
            await leadership.release()
        except ApiError as error:
            log.warning("lease not released", problem=str(error))


async def _led(leadership: Leadership, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(leadership.keep())
        tasks.create_task(work())

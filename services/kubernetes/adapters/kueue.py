"""The Kueue of a cluster: Workloads of copies, and the check that lets them run."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import structlog

from coplace_client.errors import RejectedError
from services.kubernetes.processor.effects import AdmitCopy, EvictCopy
from shared.kubernetes.api import ApiError, ApiMissingError
from shared.kubernetes.objects import condition_of, mapping_of
from shared.kueue.answers import activated, checked, deactivated
from shared.kueue.names import GRANTED_CHECK
from shared.kueue.paths import check_path
from shared.kueue.workloads import CheckState, KueueWorkload, WorkloadKey, identified

_EVERY_S: Final = 10.0
_ADVICE: Final = "create it and name it in the ClusterQueue: docs/how-to/kubernetes-jobs.md"

log = structlog.get_logger(__name__)


class WorkloadTaker(Protocol):
    """Takes Workloads of Kueue; the reconciler and the executor do."""

    def see_workload(self, found: KueueWorkload, *, is_removed: bool = False) -> None: ...


class WorkloadWatcher:
    """Passes Workloads on; `odd` gets the cluster of one that cannot be read."""

    def __init__(self, jobs: WorkloadTaker, odd: Callable[[str], object] = str) -> None:
        self._jobs, self._odd = jobs, odd

    def replace(self, cluster: str, found: Sequence[Mapping[str, Any]]) -> None:
        """Pass on all Workloads."""
        for fields in found:
            self.changed(cluster, fields)

    def changed(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Pass on a Workload that is new, or has changed."""
        self._pass_on(cluster, found, is_removed=False)

    def deleted(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Pass on that a Workload was deleted."""
        self._pass_on(cluster, found, is_removed=True)

    def _pass_on(self, cluster: str, fields: Mapping[str, Any], *, is_removed: bool) -> None:
        try:
            found = identified(cluster, fields)
        except RejectedError as error:
            log.error("not a Workload", cluster=cluster, problem=str(error))
            self._odd(cluster)
        else:
            self._jobs.see_workload(found, is_removed=is_removed)


class CopyWorkloadApi(Protocol):
    """What of an API server is needed for Workloads; `JobServer` has it."""

    async def get_workload(self, key: WorkloadKey) -> Mapping[str, Any]: ...
    async def patch_workload(
        self, key: WorkloadKey, body: Mapping[str, Any]
    ) -> Mapping[str, Any]: ...
    async def answer_check(
        self, key: WorkloadKey, body: Mapping[str, Any]
    ) -> Mapping[str, Any]: ...


async def write_workload(
    api: CopyWorkloadApi, effect: AdmitCopy | EvictCopy, now_us: int
) -> Mapping[str, Any]:
    """Have Kueue let a copy run, or run no more; returns what its Workload is then. Raises
    ApiError."""
    workload = effect.workload
    if isinstance(effect, EvictCopy):
        return await api.patch_workload(workload.key, deactivated(workload))
    body = checked(workload, [GRANTED_CHECK], CheckState.READY, effect.message, now_us)
    return await api.answer_check(workload.key, body)


class CheckApi(Protocol):
    """What of an API server is needed; `JobServer` has it."""

    cluster: str

    async def read(self, path: str) -> Mapping[str, Any]: ...
    async def activate_check(self, body: Mapping[str, Any]) -> None: ...


class GrantedCheck:
    """Says of the check of a cluster that somebody answers it: Kueue admits nothing before."""

    def __init__(self, api: CheckApi, now_us: Callable[[], int]) -> None:
        self._api, self._now_us = api, now_us
        self._problem = ""

    async def run(self) -> None:
        """Look every ten seconds, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(_EVERY_S)

    async def look(self) -> None:
        """Say so where it is not said."""
        try:
            check = await self._api.read(check_path(GRANTED_CHECK))
            if condition_of(mapping_of(check.get("status")), "Active") is None:
                await self._api.activate_check(activated(check, self._now_us()))
                log.info("answers the check", cluster=self._api.cluster, check=GRANTED_CHECK)
            self._problem = ""
        except ApiError as error:
            advice = _ADVICE if isinstance(error, ApiMissingError) else ""
            if self._problem != str(error):
                words = {"cluster": self._api.cluster, "check": GRANTED_CHECK}
                log.error("check not answered", **words, problem=str(error), advice=advice)
            self._problem = str(error)

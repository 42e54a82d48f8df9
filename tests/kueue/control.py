"""A check that answers Ready at once: what any check costs."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from services.kueue.adapters.api import WorkloadServer
from shared.kubernetes.api import ApiConflictError
from shared.kubernetes.clusters import api_client
from shared.kubernetes.reflector import reflect
from shared.kueue.answers import activated, checked
from shared.kueue.paths import CHECKS, WORKLOADS
from shared.kueue.workloads import CheckState, KueueWorkload
from tests.kueue.cluster import KueueCluster

_CHECK: Final = "control"


class ReadyAtOnce:
    """Notes each Workload of which the check is pending."""

    def __init__(self) -> None:
        self.pending: asyncio.Queue[KueueWorkload] = asyncio.Queue()

    def replace(self, cluster: str, found: Sequence[Mapping[str, Any]]) -> None:
        """Take all Workloads."""
        for each in found:
            self.changed(cluster, each)

    def changed(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Take a Workload that is new, or has changed."""
        workload = KueueWorkload(cluster, found)
        if workload.checks.get(_CHECK) == CheckState.PENDING and workload.may_start:
            self.pending.put_nowait(workload)

    def deleted(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Ignore a Workload that was deleted."""


async def control(cluster: KueueCluster) -> None:
    """Answer until cancelled."""
    async with api_client(cluster.name, cluster.kubeconfig("control"), "") as client:
        server, ready = WorkloadServer(cluster.name, client), ReadyAtOnce()
        check = await server.read(f"{CHECKS}/{_CHECK}")
        await server.activate(_CHECK, activated(check, time.time_ns() // 1000))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(reflect(server, WORKLOADS, "", ready, lambda: None))
            while True:
                await _answer(server, await ready.pending.get())


async def _answer(server: WorkloadServer, workload: KueueWorkload) -> None:
    """Say Ready; a Workload that has changed since comes again."""
    at_us = time.time_ns() // 1000
    body = checked(workload, [_CHECK], CheckState.READY, "ready", at_us)
    try:
        await server.apply_status(_path(workload), body, "control")
    except ApiConflictError:
        return


def _path(workload: KueueWorkload) -> str:
    key = workload.key
    return f"{WORKLOADS.rpartition('/')[0]}/namespaces/{key.namespace}/workloads/{key.name}"

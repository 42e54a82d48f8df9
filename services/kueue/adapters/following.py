"""Follows what API servers have of Workloads and around them."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from coplace_client.health import Readiness
from services.kueue.adapters.api import (
    CONFIGS,
    FLAVORS,
    RECORDS,
    RECORDS_MISSING,
    WorkloadServer,
)
from services.kueue.adapters.meter import KueueMeter
from services.kueue.adapters.reconciler import WorkloadReconciler
from services.kueue.adapters.watchers import NamedWatcher, WorkloadRecordWatcher
from services.kueue.settings import KueueClusters
from shared.kubernetes.api import Trim
from shared.kubernetes.clusters import api_client
from shared.kubernetes.reflector import ObjectWatcher, reflect
from shared.kueue.paths import CHECKS, KUEUE_MISSING, WORKLOADS
from shared.kueue.workloads import trimmed


@asynccontextmanager
async def connected(
    there: KueueClusters, meter: KueueMeter | None = None
) -> AsyncIterator[Mapping[str, WorkloadServer]]:
    """Give all API servers of a file, by name. Raises CannotStartError."""
    async with AsyncExitStack() as opened:
        found: dict[str, WorkloadServer] = {}
        for each in there.servers:
            client = api_client(each.name, each.kubeconfig, each.context)
            api = await opened.enter_async_context(client)
            if meter is not None:
                meter.begin(each.name)
            found[each.name] = WorkloadServer(each.name, api, meter.refused if meter else str)
        yield found


@dataclass(frozen=True, slots=True)
class ServerFollower:
    """Of all API servers of this process."""

    apis: Mapping[str, WorkloadServer]
    meter: KueueMeter
    readiness: Readiness
    tasks: asyncio.TaskGroup

    async def workloads(self, workloads: WorkloadReconciler) -> None:
        """Return when all that is around Workloads is known, then they, then their records."""
        for path, note in (
            (CHECKS, workloads.note_checks),
            (CONFIGS, workloads.note_configs),
            (FLAVORS, workloads.note_flavors),
        ):
            self.readiness.wait_for(f"Kueue's {path.rpartition('/')[2]} of all clusters")
            for name in self.apis:
                await self.follow(name, path, NamedWatcher(note))
        self.readiness.wait_for("the Workloads of all clusters")
        for name in self.apis:
            await self.follow(name, WORKLOADS, workloads, trim=trimmed)
        # A record is what the process before left: its Workload is seen by then, or was deleted.
        self.readiness.wait_for("the records of all clusters")
        for name in self.apis:
            await self.follow(
                name, RECORDS, WorkloadRecordWatcher(workloads), advice=RECORDS_MISSING
            )

    async def follow(
        self,
        name: str,
        path: str,
        watcher: ObjectWatcher,
        selector: str = "",
        trim: Trim = dict,
        advice: str = KUEUE_MISSING,
    ) -> None:
        """Return when all objects are known; they are followed from then on."""
        listed = asyncio.Event()
        following = reflect(
            self.apis[name], path, selector, watcher, listed.set, self.meter, advice, trim
        )
        self.tasks.create_task(following)
        await listed.wait()

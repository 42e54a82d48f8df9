"""Composition root of the process that watches while Coplace is silent."""

import asyncio
from collections.abc import Mapping
from typing import Final

import structlog

from services.kueue.adapters.api import WorkloadServer
from services.kueue.adapters.following import ServerFollower, connected
from services.kueue.adapters.meter import KueueMeter
from services.kueue.adapters.reconciler import ClustersKnown
from services.kueue.adapters.silence import WorkloadReleaser
from services.kueue.settings import KueueClusters, KueueSettings, clusters_of
from shared.kubernetes.api import ApiError
from shared.kubernetes.clusters import labels_of
from shared.kubernetes.leases import LeaseWatch
from shared.process.clock import process_clock
from shared.process.life import Process, run_process

NAME: Final = "kueue-silence"
_LOOKS_EVERY_S: Final = 5.0

log = structlog.get_logger(__name__)


async def serve(process: Process) -> None:
    """Watch the Lease until the process shall stop."""
    own = KueueSettings()
    there = clusters_of(own.clusters_file)
    meter = KueueMeter(process.telemetry.meter)
    async with connected(there, meter) as apis:
        await process.run_until_stopped(NAME, _watch(process, own, there, apis, meter))


async def _watch(
    process: Process,
    own: KueueSettings,
    there: KueueClusters,
    apis: Mapping[str, WorkloadServer],
    meter: KueueMeter,
) -> None:
    """Learn what Workloads there are, and let them go while Coplace is silent."""
    lease = LeaseWatch(apis[there.home], own.lease, own.silence_after_s)
    releaser = WorkloadReleaser(
        apis,
        [each.name for each in there.managers],
        ClustersKnown({each.name: labels_of(each) for each in there.clusters}, lambda _: {}),
        own.terms(there.clusters),
        process_clock().now_us,
        lambda: lease.is_silent,
        meter.odd,
    )
    meter.watch(releaser.states)
    meter.watch_lease(lambda: lease.silent_s, lambda: releaser.let_go)
    async with asyncio.TaskGroup() as tasks:
        await ServerFollower(apis, meter, process.readiness, tasks).workloads(releaser)
        process.readiness.ready()
        for _ in range(own.workers):
            tasks.create_task(releaser.work())
        tasks.create_task(releaser.tell_users())
        await _look(lease, releaser)


async def _look(lease: LeaseWatch, releaser: WorkloadReleaser) -> None:
    """Look at the Lease, until cancelled."""
    was_silent = False
    while True:
        try:
            await lease.look()
        except ApiError as error:
            log.warning("lease not read", problem=str(error))
        if lease.is_silent:
            releaser.look_at_all()
        if lease.is_silent != was_silent:
            was_silent = lease.is_silent
            words = "Coplace is silent" if was_silent else "Coplace is there again"
            log.error(words, silent_s=round(lease.silent_s), let_go=releaser.let_go)
        await asyncio.sleep(_LOOKS_EVERY_S)


def main() -> None:
    """Run the process."""
    run_process(NAME, serve)

"""Composition root of the executor."""

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

import structlog

from coplace_client.errors import UnusableError
from services.kubernetes.adapters.api import JOBS, JobServer
from services.kubernetes.adapters.assigned import MISSING, SILENT_S
from services.kubernetes.adapters.executor import AssignmentWatcher, JobExecutor
from services.kubernetes.adapters.executor_nodes import NodeMirror
from services.kubernetes.adapters.home import HOME, HomeServer
from services.kubernetes.adapters.kueue import GrantedCheck, WorkloadWatcher
from services.kubernetes.adapters.meter import OF_HOME, ExecutorMeter
from services.kubernetes.adapters.pods import PodWatcher
from services.kubernetes.executor.settings import ExecutorSettings
from services.kubernetes.model.names import EXECUTOR
from shared.kubernetes.api import NODES, PODS, ApiServer, Trim
from shared.kubernetes.clusters import api_client
from shared.kubernetes.names import GRANT
from shared.kubernetes.nodes import trimmed_node
from shared.kubernetes.objects import unmanaged
from shared.kubernetes.other_pods import SELECTOR as OTHER_PODS
from shared.kubernetes.other_pods import trimmed_other_pod
from shared.kubernetes.pods import trimmed_pod
from shared.kubernetes.reflector import ObjectWatcher, reflect
from shared.kueue.paths import KUEUE_MISSING, WORKLOADS
from shared.kueue.workloads import trimmed as trimmed_workload
from shared.process.clock import process_clock
from shared.process.life import Process, run_process

NAME: Final = "kubernetes-executor"
_RENEWS_EVERY_S: Final = 5.0

log = structlog.get_logger(__name__)


async def serve(process: Process) -> None:
    """Run assignments until the process shall stop."""
    own = ExecutorSettings()
    meter = ExecutorMeter(process.telemetry.meter, own.cluster)
    meter.begin(HOME, OF_HOME)
    meter.begin(own.cluster)
    async with AsyncExitStack() as opened:
        away = api_client(HOME, own.home_kubeconfig, own.home_context)
        client = await opened.enter_async_context(away)
        home = HomeServer(own.cluster, client, own.namespace, meter.refused)
        here = api_client(own.cluster, own.kubeconfig, own.context)
        jobs = JobServer(own.cluster, await opened.enter_async_context(here), meter.refused)
        await process.run_until_stopped(NAME, _run(process, own, home, jobs, meter))


async def _run(
    process: Process,
    own: ExecutorSettings,
    home: HomeServer,
    here: JobServer,
    meter: ExecutorMeter,
) -> None:
    """Learn what is assigned and what runs, then do what follows."""
    now_us = process_clock().now_us
    executor = JobExecutor(own.cluster, home, here, now_us, meter.odd, follows_kueue=own.kueue)
    meter.watch(executor.counts)
    nodes = NodeMirror(home)
    async with asyncio.TaskGroup() as tasks:
        watched, waits = partial(_watched, tasks, meter), process.readiness.wait_for
        waits("the assignments: does the home cluster have the kind JobAssignment?")
        assigned = AssignmentWatcher(executor)
        await watched(home, home.assignments, "", assigned, unmanaged, MISSING)
        waits("the Jobs, pods and nodes of its own cluster")
        await watched(here, JOBS, f"{EXECUTOR}={own.cluster}", executor, unmanaged)
        await watched(here, PODS, GRANT, PodWatcher(executor), trimmed_pod)
        await watched(here, PODS, OTHER_PODS, nodes.others, trimmed_other_pod)
        node = partial(trimmed_node, has_labels=True)
        await watched(here, NODES, own.node_selector, nodes, node)
        if own.kueue:
            waits("the Workloads of its own cluster")
            workloads = WorkloadWatcher(executor, meter.odd)
            await watched(here, WORKLOADS, "", workloads, trimmed_workload, KUEUE_MISSING)
            tasks.create_task(GrantedCheck(here, now_us).run())
        process.readiness.ready()
        tasks.create_task(nodes.run())
        tasks.create_task(_renew(home, here, nodes))
        for _ in range(own.workers):
            tasks.create_task(executor.work())


async def _renew(home: HomeServer, here: ApiServer, nodes: NodeMirror) -> None:
    """Say in the home cluster that this one answers, once that knows all nodes, until cancelled."""
    await nodes.reported.wait()
    while True:
        try:
            await here.answer()
            await home.renew(round(SILENT_S))
        except UnusableError as error:
            log.warning("lease not renewed", problem=str(error))
        await asyncio.sleep(_RENEWS_EVERY_S)


async def _watched(
    tasks: asyncio.TaskGroup,
    meter: ExecutorMeter,
    api: ApiServer,
    path: str,
    selector: str,
    watcher: ObjectWatcher,
    trim: Trim,
    if_missing: str = "",
) -> None:
    """Return when all objects are known; they are followed from then on."""
    listed = asyncio.Event()
    tasks.create_task(reflect(api, path, selector, watcher, listed.set, meter, if_missing, trim))
    await listed.wait()


def main() -> None:
    """Run the process."""
    run_process(NAME, serve)

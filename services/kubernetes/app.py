"""Composition root of the Kubernetes resource manager."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final

from coplace_client.ingest import FactSender, IngestClient, Patience
from services.kubernetes.adapters.api import (
    JOBS,
    RECORDS,
    RECORDS_MISSING,
    JobServer,
)
from services.kubernetes.adapters.assigned import MISSING as ASSIGNMENTS_MISSING
from services.kubernetes.adapters.assigned import AssignedJobs
from services.kubernetes.adapters.connecting import connected
from services.kubernetes.adapters.executor_nodes import ReportedNodes
from services.kubernetes.adapters.home import nodes_path
from services.kubernetes.adapters.kueue import GrantedCheck, WorkloadWatcher
from services.kubernetes.adapters.meter import OF_EXECUTOR, KubernetesMeter
from services.kubernetes.adapters.offers import JobOffers
from services.kubernetes.adapters.pods import PodWatcher
from services.kubernetes.adapters.queues import QueueReporter
from services.kubernetes.adapters.reconciler import JobReconciler
from services.kubernetes.adapters.records import RecordWatcher
from services.kubernetes.adapters.waits import WaitNotes
from services.kubernetes.model.names import QUEUE_NAME
from services.kubernetes.settings import JobClusterEntry, KubernetesSettings, clusters_of
from shared.clients.charges import ChargeFollower
from shared.clients.decisions import DECISIONS, DecisionFollower, ResourceManager
from shared.kubernetes.api import NODES, PODS, Trim
from shared.kubernetes.explainer import PlacementExplainer
from shared.kubernetes.heartbeat import ClusterHeartbeat
from shared.kubernetes.leadership import work_while_leading
from shared.kubernetes.names import GRANT
from shared.kubernetes.node_reporter import NodeReporter
from shared.kubernetes.nodes import trimmed_node
from shared.kubernetes.objects import unmanaged
from shared.kubernetes.other_pods import SELECTOR as OTHER_PODS
from shared.kubernetes.other_pods import trimmed_other_pod
from shared.kubernetes.placement import PlacementClient
from shared.kubernetes.pods import trimmed_pod
from shared.kubernetes.reflector import ObjectWatcher, reflect
from shared.kueue.paths import KUEUE_MISSING, WORKLOADS
from shared.kueue.workloads import trimmed as trimmed_workload
from shared.process.clock import process_clock
from shared.process.life import Process, run_process
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.waiting import wait_for_topics
from shared.streams.telemetry import hooks_of

NAME: Final = "kubernetes"
# Obeyed at once, of several Jobs side by side, since each waits for an API server.
_DECISIONS_AT_ONCE: Final = 500
# A Job waits for each fact: one without an answer is published again.
_TOLD_WITHIN_S: Final = 30.0


async def serve(process: Process) -> None:
    """Reconcile until the process shall stop."""
    own = KubernetesSettings()
    clusters = clusters_of(own.clusters_file)
    await wait_for_topics(process.settings, (DECISIONS,), process.readiness, process.stop)
    meter = KubernetesMeter(process.telemetry.meter)
    async with connected(clusters, meter.refused) as apis:
        for each in clusters:
            meter.begin(each.name, OF_EXECUTOR if each.executor else ())
        work = partial(_run, process, own, clusters, apis, meter)
        await work_while_leading(process, NAME, own, apis[clusters[0].name], work)


async def _run(
    process: Process,
    own: KubernetesSettings,
    clusters: Sequence[JobClusterEntry],
    apis: Mapping[str, JobServer],
    meter: KubernetesMeter,
) -> None:
    """Declare the clusters, learn what Jobs they have, then do what follows."""
    now_us = process_clock().now_us
    patience = Patience(call_s=_TOLD_WITHIN_S)
    facts = FactSender(IngestClient(own.ingest_address, process.settings, patience))
    placement = PlacementClient(own.placement_address, process.settings)
    async with asyncio.TaskGroup() as tasks:
        watched = partial(_watched, tasks, meter)
        tasks.create_task(facts.run())
        reporters: dict[str, NodeReporter] = {}
        terms = own.terms(list(clusters))
        executors = {name: api for name, api in apis.items() if isinstance(api, AssignedJobs)}
        offers = JobOffers(reporters, executors)
        jobs = JobReconciler(apis, facts, terms, now_us, meter.odd, offers.offer)
        meter.watch(jobs.counts)
        queue = f"{QUEUE_NAME}={own.queue}"
        process.readiness.wait_for("the records of all clusters: do they have the kind JobRecord?")
        own_apis = {each.name: apis[each.name] for each in clusters if not each.executor}
        for api in own_apis.values():
            await watched(api, RECORDS, queue, RecordWatcher(jobs), RECORDS_MISSING, unmanaged)
        process.readiness.wait_for("the nodes of all clusters")
        for each in clusters:
            traits = each.traits(own.site, own.architecture)
            reporter = NodeReporter(traits, facts, placement, now_us, meter.odd, jobs.asked)
            reporters[each.name] = reporter
            await _follow_nodes(watched, each, apis[each.name], reporter)
            tasks.create_task(reporter.run())
        # Of those that have an executor nobody knows when that begins: what waits for one is not
        # submitted.
        process.readiness.wait_for("placement to know all clusters")
        await placement.knows(frozenset(own_apis))
        for name, api in apis.items():
            tasks.create_task(ClusterHeartbeat(own.site, name, api, facts, now_us).run())
        process.readiness.wait_for("the Jobs of all clusters")
        for api in apis.values():
            await watched(api, JOBS, queue, jobs, trim=unmanaged)
        process.readiness.wait_for("the Workloads of clusters whose Kueue lets copies run")
        for each in clusters:
            workloads = WorkloadWatcher(jobs, meter.odd)
            await _follow_kueue(tasks, watched, each, apis[each.name], workloads)
        for api in own_apis.values():
            await watched(api, PODS, GRANT, PodWatcher(jobs), trim=trimmed_pod)
        process.readiness.ready()
        tasks.create_task(QueueReporter(own_apis, own.site, own.queue, jobs.counts).run())
        tasks.create_task(WaitNotes(jobs, PlacementExplainer(placement)).run())
        for _ in range(own.workers):
            tasks.create_task(jobs.work())
        tasks.create_task(offers.follow(jobs.touch_waiting))
        tasks.create_task(jobs.tell_users())
        manager = ResourceManager(own.name, own.site, frozenset(apis))
        deployment = Deployment.from_settings(process.settings)
        decisions = DecisionFollower(deployment, manager, _DECISIONS_AT_ONCE)
        hooks_of(process.telemetry).meter.watch_backlog(NAME, decisions.backlog)
        tasks.create_task(decisions.run(jobs.obey))
        tasks.create_task(ChargeFollower(deployment, own.name).run(jobs.note_charge))


async def _follow_nodes(
    watched: Callable[..., Awaitable[None]],
    cluster: JobClusterEntry,
    api: JobServer,
    reporter: NodeReporter,
) -> None:
    """Follow the nodes of a cluster, and what pods of others take of them; as its executor reports
    both, where it has one."""
    if cluster.executor:
        nodes = ReportedNodes(reporter)
        await watched(api, nodes_path(cluster.executor), "", nodes, ASSIGNMENTS_MISSING, unmanaged)
        return
    trim = partial(trimmed_node, has_labels=True)
    await watched(api, PODS, OTHER_PODS, reporter.others, trim=trimmed_other_pod)
    await watched(api, NODES, cluster.node_selector, reporter, trim=trim)


async def _follow_kueue(
    tasks: asyncio.TaskGroup,
    watched: Callable[..., Awaitable[None]],
    cluster: JobClusterEntry,
    api: JobServer,
    workloads: WorkloadWatcher,
) -> None:
    """Follow the Workloads of a cluster, and answer their check, where its Kueue lets copies run;
    its executor does, where it has one."""
    if cluster.kueue_queue and not cluster.executor:
        await watched(api, WORKLOADS, "", workloads, KUEUE_MISSING, trimmed_workload)
        tasks.create_task(GrantedCheck(api, process_clock().now_us).run())


async def _watched(
    tasks: asyncio.TaskGroup,
    meter: KubernetesMeter,
    api: JobServer,
    path: str,
    selector: str,
    watcher: ObjectWatcher,
    if_missing: str = "",
    trim: Trim = dict,
) -> None:
    """Return when all objects are known; they are followed from then on."""
    listed = asyncio.Event()
    tasks.create_task(reflect(api, path, selector, watcher, listed.set, meter, if_missing, trim))
    await listed.wait()


def main() -> None:
    """Run the process of the adapter of Kubernetes."""
    run_process(NAME, serve)

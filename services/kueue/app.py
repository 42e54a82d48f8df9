"""Composition root of the adapter of Kueue."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import structlog

from coplace_client.ingest import FactSender, IngestClient, Patience
from services.kueue.adapters.api import (
    CHECKS,
    CONFIGS,
    FLAVORS,
    KUEUE_MISSING,
    RECORDS,
    RECORDS_MISSING,
    WORKLOADS,
    WorkloadServer,
)
from services.kueue.adapters.explainer import PlacementExplainer
from services.kueue.adapters.meter import KueueMeter
from services.kueue.adapters.reconciler import ClustersKnown, WorkloadReconciler
from services.kueue.adapters.watchers import NamedWatcher, RecordWatcher, WorkloadPodWatcher
from services.kueue.model.names import WORKLOAD
from services.kueue.model.pods import trimmed_pod
from services.kueue.model.workloads import trimmed
from services.kueue.settings import KueueClusters, KueueSettings, ManagerEntry, clusters_of
from shared.clients.decisions import DECISIONS, DecisionFollower, ResourceManager
from shared.kubernetes.api import NODES, PODS, ApiError, Trim
from shared.kubernetes.clusters import ClusterEntry, api_client, labels_of
from shared.kubernetes.heartbeat import ClusterHeartbeat
from shared.kubernetes.node_reporter import NodeReporter
from shared.kubernetes.nodes import trimmed_node
from shared.kubernetes.placement import PlacementClient
from shared.kubernetes.reflector import ObjectWatcher, reflect
from shared.process.clock import process_clock
from shared.process.life import Process, run_process
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.waiting import wait_for_topics
from shared.streams.telemetry import hooks_of

NAME: Final = "kueue"
# Obeyed at once, of several Workloads side by side, since each waits for an API server.
_DECISIONS_AT_ONCE: Final = 500
# A Workload waits for each fact: one without an answer is published again.
_TOLD_WITHIN_S: Final = 30.0
_ACTIVATES_EVERY_S: Final = 5.0

log = structlog.get_logger(__name__)


async def serve(process: Process) -> None:
    """Reconcile until the process shall stop."""
    own = KueueSettings()
    there = clusters_of(own.clusters_file)
    await wait_for_topics(process.settings, (DECISIONS,), process.readiness, process.stop)
    meter = KueueMeter(process.telemetry.meter)
    async with AsyncExitStack() as opened:
        apis = {
            each.name: await opened.enter_async_context(_connected(each, meter))
            for each in there.servers
        }
        await process.run_until_stopped(NAME, _Adapter(process, own, there, apis, meter).run())


@dataclass
class _Adapter:
    """What runs until the process shall stop."""

    process: Process
    own: KueueSettings
    there: KueueClusters
    apis: Mapping[str, WorkloadServer]
    meter: KueueMeter
    reporters: dict[str, NodeReporter] = field(default_factory=dict)

    async def run(self) -> None:
        """Declare the clusters, learn what Workloads there are, then do what follows."""
        own, process = self.own, self.process
        facts = FactSender(
            IngestClient(own.ingest_address, process.settings, Patience(call_s=_TOLD_WITHIN_S))
        )
        placement = PlacementClient(own.placement_address, process.settings)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(facts.run())
            await self._declared(tasks, facts, placement)
            workloads = self._reconciler(facts, placement)
            self.meter.watch(workloads.states)
            await self._known(tasks, workloads)
            process.readiness.ready()
            for name in self.apis:
                tasks.create_task(_activating(workloads, name))
            for _ in range(own.workers):
                tasks.create_task(workloads.work())
            manager = ResourceManager(own.name, own.site, frozenset(self.apis))
            deployment = Deployment.from_settings(process.settings)
            decisions = DecisionFollower(deployment, manager, _DECISIONS_AT_ONCE)
            hooks_of(process.telemetry).meter.watch_backlog(NAME, decisions.backlog)
            tasks.create_task(decisions.run(workloads.obey))

    async def _declared(
        self, tasks: asyncio.TaskGroup, facts: FactSender, placement: PlacementClient
    ) -> None:
        """Return when placement knows the clusters: before that it rejects their jobs."""
        own, now_us = self.own, process_clock().now_us
        self.process.readiness.wait_for("the nodes of all clusters")
        for each in self.there.clusters:
            traits = each.traits(own.site, own.architecture, shares_unpredicted=True)
            reporter = NodeReporter(traits, facts, placement, now_us, self.meter.odd)
            self.reporters[each.name] = reporter
            selector = each.node_selector
            await self._watched(tasks, each.name, NODES, reporter, selector, trimmed_node)
            tasks.create_task(reporter.run())
        self.process.readiness.wait_for("placement to know all clusters")
        await placement.knows(frozenset(self.reporters))
        for name in self.reporters:
            heartbeat = ClusterHeartbeat(own.site, name, self.apis[name], facts, now_us)
            tasks.create_task(heartbeat.run())

    def _reconciler(self, facts: FactSender, placement: PlacementClient) -> WorkloadReconciler:
        clusters, own = self.there.clusters, self.own
        return WorkloadReconciler(
            self.apis,
            [each.name for each in self.there.managers],
            facts,
            PlacementExplainer(placement),
            ClustersKnown({each.name: labels_of(each) for each in clusters}, self._hostnames),
            own.terms(clusters),
            own.patience,
            process_clock().now_us,
            self.meter.odd,
        )

    def _hostnames(self, cluster: str) -> Mapping[str, str]:
        reporter = self.reporters.get(cluster)
        return reporter.hostnames if reporter else {}

    async def _known(self, tasks: asyncio.TaskGroup, workloads: WorkloadReconciler) -> None:
        """Return when all that is around Workloads is known, then they, then their pods."""
        for path, note in (
            (CHECKS, workloads.note_checks),
            (CONFIGS, workloads.note_configs),
            (FLAVORS, workloads.note_flavors),
        ):
            self.process.readiness.wait_for(f"Kueue's {path.rpartition('/')[2]} of all clusters")
            for name in self.apis:
                await self._watched(tasks, name, path, NamedWatcher(note))
        self.process.readiness.wait_for("the Workloads of all clusters")
        for name in self.apis:
            await self._watched(tasks, name, WORKLOADS, workloads, trim=trimmed)
        # A record is what the process before left: its Workload is seen by then, or is gone.
        self.process.readiness.wait_for("the records of all clusters")
        for name in self.apis:
            watcher = RecordWatcher(workloads)
            await self._watched(tasks, name, RECORDS, watcher, advice=RECORDS_MISSING)
        self.process.readiness.wait_for("the pods of all clusters")
        for name in self.reporters:
            pods = WorkloadPodWatcher(workloads)
            await self._watched(tasks, name, PODS, pods, WORKLOAD, trimmed_pod)

    async def _watched(
        self,
        tasks: asyncio.TaskGroup,
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
        tasks.create_task(following)
        await listed.wait()


async def _activating(workloads: WorkloadReconciler, name: str) -> None:
    """Answer the AdmissionChecks of an API server, also those that come; until cancelled."""
    while True:
        try:
            await workloads.activate(name)
        except ApiError as error:
            log.warning("check not activated", cluster=name, problem=str(error))
        await asyncio.sleep(_ACTIVATES_EVERY_S)


@asynccontextmanager
async def _connected(
    cluster: ClusterEntry | ManagerEntry, meter: KueueMeter
) -> AsyncIterator[WorkloadServer]:
    """The API server of a cluster. Raises CannotStartError."""
    async with api_client(cluster.name, cluster.kubeconfig, cluster.context) as client:
        meter.begin(cluster.name)
        yield WorkloadServer(cluster.name, client, meter.refused)


def main() -> None:
    """Run the process of the adapter of Kueue."""
    run_process(NAME, serve)

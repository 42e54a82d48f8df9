"""Composition root of the adapter of Kueue."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog

from coplace_client.ingest import FactSender, IngestClient, Patience
from services.kueue.adapters.api import WorkloadServer
from services.kueue.adapters.following import ServerFollower, connected
from services.kueue.adapters.lease import CoplaceLease
from services.kueue.adapters.meter import KueueMeter
from services.kueue.adapters.reconciler import ClustersKnown, WorkloadReconciler
from services.kueue.adapters.watchers import WorkloadPodWatcher
from services.kueue.settings import KueueClusters, KueueSettings, clusters_of
from shared.clients.charges import ChargeFollower
from shared.clients.decisions import DECISIONS, DecisionFollower, ResourceManager
from shared.kubernetes.api import NODES, PODS, ApiError
from shared.kubernetes.clusters import labels_of
from shared.kubernetes.explainer import PlacementExplainer
from shared.kubernetes.heartbeat import ClusterHeartbeat
from shared.kubernetes.leadership import work_while_leading
from shared.kubernetes.node_reporter import NodeReporter
from shared.kubernetes.nodes import trimmed_node
from shared.kubernetes.placement import PlacementClient
from shared.kubernetes.pods import trimmed_pod
from shared.kueue.names import WORKLOAD
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
    async with connected(there, meter) as apis:
        work = _Adapter(process, own, there, apis, meter).run
        await work_while_leading(process, NAME, own, apis[there.home], work)


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
            following = ServerFollower(self.apis, self.meter, process.readiness, tasks)
            heartbeats = await self._declared(following, facts, placement)
            workloads = self._reconciler(facts, placement)
            self.meter.watch(workloads.states)
            await following.workloads(workloads)
            process.readiness.wait_for("the pods of all clusters")
            for name in self.reporters:
                pods = WorkloadPodWatcher(workloads)
                await following.follow(name, PODS, pods, WORKLOAD, trimmed_pod)
            process.readiness.ready()
            lease = (self.apis[self.there.home], own.lease, own.architecture)
            tasks.create_task(CoplaceLease(*lease, placement, heartbeats).run())
            for name in self.apis:
                tasks.create_task(_activating(workloads, name))
            for _ in range(own.workers):
                tasks.create_task(workloads.work())
            tasks.create_task(workloads.tell_users())
            manager = ResourceManager(own.name, own.site, frozenset(self.apis))
            deployment = Deployment.from_settings(process.settings)
            decisions = DecisionFollower(deployment, manager, _DECISIONS_AT_ONCE)
            hooks_of(process.telemetry).meter.watch_backlog(NAME, decisions.backlog)
            tasks.create_task(decisions.run(workloads.obey))
            charges = ChargeFollower(deployment, own.name)
            tasks.create_task(charges.run(workloads.note_charge))

    async def _declared(
        self, following: ServerFollower, facts: FactSender, placement: PlacementClient
    ) -> Sequence[ClusterHeartbeat]:
        """Return when placement knows the clusters: before that it rejects their jobs."""
        own, now_us = self.own, process_clock().now_us
        self.process.readiness.wait_for("the nodes of all clusters")
        for each in self.there.clusters:
            traits = each.traits(own.site, own.architecture)
            reporter = NodeReporter(traits, facts, placement, now_us, self.meter.odd)
            self.reporters[each.name] = reporter
            selector = each.node_selector
            await following.follow(each.name, NODES, reporter, selector, trimmed_node)
            following.tasks.create_task(reporter.run())
        self.process.readiness.wait_for("placement to know all clusters")
        for reporter in self.reporters.values():  # placement may know them from before
            await reporter.declared.wait()
        await placement.knows(frozenset(self.reporters))
        heartbeats = [
            ClusterHeartbeat(own.site, name, self.apis[name], facts, now_us)
            for name in self.reporters
        ]
        for heartbeat in heartbeats:
            following.tasks.create_task(heartbeat.run())
        return heartbeats

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


async def _activating(workloads: WorkloadReconciler, name: str) -> None:
    """Answer the AdmissionChecks of an API server, also those that come; until cancelled."""
    while True:
        try:
            await workloads.activate(name)
        except ApiError as error:
            log.warning("check not activated", cluster=name, problem=str(error))
        await asyncio.sleep(_ACTIVATES_EVERY_S)


def main() -> None:
    """Run the process of the adapter of Kueue."""
    run_process(NAME, serve)

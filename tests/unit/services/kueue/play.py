"""One course of everything: Kueue, users and the adapter, with a whole region behind them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.placement_pb2 import VERDICT_START

from coplace_client.errors import RejectedError
from coplace_testing import Region
from services.kueue.adapters.reconciler import ClustersKnown, WorkloadReconciler
from services.kueue.adapters.silence import WorkloadReleaser
from services.kueue.model.facts import KueueTerms
from services.kueue.model.records import LET_GO_LEAST, parse_record
from services.kueue.processor.seen import WaitLimit
from shared.clients.asked import is_asked
from shared.kubernetes.api import ApiUnavailableError
from shared.kubernetes.explained_wait import ExplainedWait
from shared.kubernetes.explainer import explained_wait_of
from shared.kueue.workloads import WorkloadKey
from tests.support.fated_api import Fate, FatedApi
from tests.support.kueue_api import CHECK, MULTIKUEUE, MemoryKueue, synchronise

NODES = 2
CORES = 8
ARCHITECTURE = "north/kueue"


def declared(name: str, nodes: int = NODES) -> ClusterDeclared:
    """A cluster of small nodes, so that jobs wait for one another."""
    return ClusterDeclared(
        cluster=name,
        site="north",
        node_model="gold-6254",
        nodes=nodes,
        cores_per_node=CORES,
        pstates_ghz=[1.2, 3.1],
        idle_power_w=105,
        peak_bandwidth_gbps=281.6,
        processors_tdp_w=400,
        architecture=ARCHITECTURE,
        node_names=[f"{name}[1-{nodes}]"],
    )


def node_names(name: str) -> dict[str, int]:
    return {f"{name}{number}": CORES for number in range(1, NODES + 1)}


class Play:
    """A manager with two workers, or one cluster where there is no manager."""

    def __init__(
        self, clusters: Sequence[str] = ("alpha",), manager: str = "", *, gated: bool = False
    ) -> None:
        self.region = Region([declared(each) for each in clusters], round_s=1.0)
        self.fate = Fate()
        self.clusters, self.manager = clusters, manager
        self.selectors: Mapping[str, Mapping[str, str]] = {name: {} for name in clusters}
        models, top_ghz = dict.fromkeys(clusters, "gold-6254"), dict.fromkeys(clusters, 3.1)
        self.terms = KueueTerms("north", ARCHITECTURE, 3600, models, top_ghz)
        now = lambda: self.region.now_us  # noqa: E731
        self.workers = {
            each: MemoryKueue(each, now, quota=2 * NODES * CORES, slots=node_names(each))
            for each in clusters
        }
        self.servers = dict(self.workers)
        if manager:
            checks = (CHECK, MULTIKUEUE) if gated else (MULTIKUEUE,)
            self.servers[manager] = MemoryKueue(manager, now, quota=10_000, checks=checks)
        for server in self.servers.values():
            server.on_write = self.check_starts
        self.home = self.servers[manager or clusters[0]]
        self.facts: dict[str, Envelope] = {}
        # What nobody may write or publish: the adapter would take an error there for one of an API
        # server or of ingest, and go on.
        self.wrong: list[str] = []
        self.granted: set[WorkloadKey] = set()
        self.is_silent = self.was_silent = False
        self.position, self.slack_s = 0, 0.0
        self.began()
        self.began_releaser()

    def began(self) -> None:
        """A process starts: it lists all, and reads decisions from where it had committed."""
        apis = {name: FatedApi(server, self.fate) for name, server in self.servers.items()}
        self.adapter = WorkloadReconciler(
            apis,
            [self.manager] if self.manager else [],
            self,
            self,
            ClustersKnown(self.selectors, lambda name: {each: each for each in node_names(name)}),
            self.terms,
            WaitLimit(),
            lambda: self.region.now_us,
        )
        self.seen = dict.fromkeys(self.servers, 0)
        self.read = self.position
        self._note_around(self.adapter)
        for name in self.servers:
            self.relist(name)
        for name, server in self.servers.items():
            self.adapter.replace_pods(name, list(server.pods.values()))

    def began_releaser(self) -> None:
        """The process beside the adapter starts, and lists all."""
        apis = {name: FatedApi(server, self.fate) for name, server in self.servers.items()}
        self.releaser = WorkloadReleaser(
            apis,
            [self.manager] if self.manager else [],
            ClustersKnown(self.selectors, lambda _: {}),
            self.terms,
            lambda: self.region.now_us,
            lambda: self.is_silent,
        )
        self._note_around(self.releaser)
        self.relist_releaser()

    def relist_releaser(self) -> None:
        """It sees all there is."""
        for name, server in self.servers.items():
            self.releaser.replace(name, [dict(each) for each in server.workloads.values()])
            self.releaser.replace_records(name, list(server.records.values()))

    async def silent_second(self) -> None:
        """A second in which the adapter does nothing."""
        self.is_silent = self.was_silent = True
        self.kueue()
        for server in self.workers.values():
            for key in list(server.workloads):
                for _ in range(4):
                    server.make_ready(key)
        self.relist_releaser()
        self.releaser.look_at_all()
        await self.releaser.work_off()
        self.is_silent = False
        self.region.advance(1)

    def _note_around(self, workloads: WorkloadReconciler) -> None:
        for name, server in self.servers.items():
            workloads.note_checks(name, server.check_objects())
            config = {"metadata": {"name": "workers"}, "spec": {"clusters": list(self.clusters)}}
            workloads.note_configs(name, {"workers": config})

    # What is outside of the adapter.

    async def tell(self, event: Envelope) -> None:
        """Ingest."""

        async def take() -> None:
            if event.id not in self.facts:
                self._send(event)
                self.facts[event.id] = event

        try:
            await self.fate.around(take)
        except ApiUnavailableError:
            await self.tell(event)  # as the sender does: until it is acknowledged

    def _send(self, event: Envelope) -> None:
        try:
            self.region.send(event)
        except Exception as error:
            self.wrong.append(f"{event.WhichOneof('payload')}: {error!r}")
            raise

    async def explain(self, job_id: str) -> ExplainedWait | None:
        """Placement, which answers."""
        try:
            return explained_wait_of(self.region.explain(job_id))
        except RejectedError:
            return None

    # What happens.

    def relist(self, name: str) -> None:
        """What a gap in the watch leads to."""
        server = self.servers[name]
        self.seen[name] = len(server.log)
        self.adapter.replace(name, [dict(each) for each in server.workloads.values()])
        self.adapter.replace_records(name, list(server.records.values()))
        self.adapter.replace_pods(name, list(server.pods.values()))

    def deliver(self, name: str, most: int, *, again: int = 0) -> None:
        """Some of what a watch has; some of it once more."""
        log, begin = self.servers[name].log, max(0, self.seen[name] - again)
        end = min(len(log), self.seen[name] + most)
        for _, kind, each in log[begin:end]:
            if kind.startswith("pod"):
                self.adapter.see_pod(name, each, is_removed=kind == "pod deleted")
            elif kind.startswith("record"):
                self.adapter.see_record(name, each, is_removed=kind == "record deleted")
            elif kind == "deleted":
                self.adapter.deleted(name, each)
            else:
                self.adapter.changed(name, each)
        self.seen[name] = max(end, self.seen[name])

    def decisions(self) -> list[Any]:
        """What the adapter is to obey."""
        own = frozenset(self.servers)
        return [each for each in self.region.decisions() if is_asked(each, "north", own)]

    async def obey(self, most: int = 10_000) -> None:
        """Decisions are read, obeyed and committed."""
        for decision in self.decisions()[self.read : self.read + most]:
            await self.adapter.obey([decision])
            self.read += 1
        self.position = self.read

    def kueue(self) -> None:
        """Kueue of all clusters looks at all there is."""
        for server in self.servers.values():
            server.tick()
        if self.manager:
            synchronise(self.home, self.workers)

    async def second(self, *, readies: bool = True) -> None:
        """A second in which all is well."""
        self.kueue()
        if readies:
            for server in self.workers.values():
                for key in list(server.workloads):
                    for _ in range(4):
                        server.make_ready(key)
        await self.look()
        self.region.advance(1)
        await self.look()

    async def look(self) -> None:
        """The adapter sees all there is, and does what follows."""
        for name in self.servers:
            self.deliver(name, 10_000)
            for workload in self.adapter.mirror.workloads():
                self.adapter.touch(workload.id)
        await self.adapter.work_off()
        await self.obey()
        await self.adapter.work_off()
        assert self.wrong == []

    # What is checked.

    def check_starts(self) -> None:
        """After every write: nothing starts, and nothing is nominated, without a live grant that
        was decided for that cluster."""
        for server in self.servers.values():
            for key, body in server.workloads.items():
                try:
                    self._check(server, key, body)
                except AssertionError as error:
                    self.wrong.append(str(error))

    def _check(self, server: MemoryKueue, key: WorkloadKey, body: dict[str, Any]) -> None:
        checks = {e["name"]: e["state"] for e in body["status"].get("admissionChecks", ())}
        is_ready = checks.get(CHECK) == "Ready"
        nominated = body["status"].get("nominatedClusterNames") or ()
        if server.is_over(key) or not (is_ready or nominated):
            return
        root = body
        if self.manager and server is not self.home:
            at = key._replace(server=self.manager)
            if at not in self.home.workloads and at in self.granted:
                return  # MultiKueue removes its copy
            root = self.home.workloads.get(at, body)
            if root is not body and self.home.is_over(at):
                return
        kept = self.home.records.get(root["metadata"]["uid"])
        assert kept is not None, f"{key} started without a record"
        record = parse_record(kept)
        claim = record.claim
        if record.let_go is not None:
            self.granted.add(key._replace(server=self.home.server))
            return  # Kueue starts it where it will
        assert claim.is_live or record.outcome, f"{key} started without a grant: {record}"
        granted = [
            each.cluster
            for each in self.region.decisions()
            if (each.job_id, each.grant) == (record.job_id, claim.grant)
            and each.verdict == VERDICT_START
        ]
        self.granted.add(key._replace(server=self.home.server))
        assert granted == [claim.cluster], f"{key} runs under {claim}, decided was {granted}"
        is_nominated = set(nominated) <= {claim.cluster}
        assert is_nominated, f"{key} is nominated for {nominated}, granted was {claim.cluster}"

    def check_charges(self) -> None:
        """Every run was charged once, from the last pod's Ready to the last pod's end. What ended
        while the process was dead may be charged until it was seen; what was evicted while
        it was silent may have been seen by nobody."""
        ran: defaultdict[tuple[str, int], float] = defaultdict(float)
        unseen: defaultdict[tuple[str, int], float] = defaultdict(float)
        for server in self.workers.values():
            for (uid, label), run in server.runs.items():
                if run.began_us and run.ended_us:
                    # What was let go runs without a grant, and its pods carry a time.
                    grant = 0 if label >= LET_GO_LEAST else label
                    run_s = (run.ended_us - run.began_us) / 1e6
                    ran[uid.split("-")[0], grant] += run_s
                    if self.was_silent and run.is_evicted:
                        unseen[uid.split("-")[0], grant] += run_s
        newest = {(each.job_id, each.attempt): each.runtime_s for each in self.region.charges()}
        charged: defaultdict[tuple[str, int], float] = defaultdict(float)
        for (job_id, attempt), runtime_s in newest.items():
            charged[job_id.split("/")[4], self._grant(job_id, attempt)] += runtime_s
        for run_id in ran.keys() | {name for name, runtime_s in charged.items() if runtime_s}:
            told, real = charged.get(run_id, 0.0), ran.get(run_id, 0.0)
            assert real - unseen[run_id] <= told <= real + self.slack_s, (
                f"{run_id}: ran {real}, charged {told}"
            )

    def _grant(self, job_id: str, attempt: int) -> int:
        """The grant that an attempt ran under, as was published; 0: none."""
        facts = (e.job_finished for e in self.facts.values() if e.HasField("job_finished"))
        found = [e.grant for e in facts if (e.job_id, e.attempt) == (job_id, attempt)]
        assert len(found) <= 1, f"{job_id} ended twice as attempt {attempt}"
        return found[0] if found else 0

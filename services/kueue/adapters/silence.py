"""Lets Workloads go while Coplace is silent."""

from collections.abc import Callable, Mapping, Sequence

from coplace.v1.ingest_service_pb2 import Envelope

from services.kueue.adapters.reconciler import ClustersKnown, WorkloadApi, WorkloadReconciler
from services.kueue.model.facts import KueueTerms
from services.kueue.processor.effects import DropRecord, KeepRecord, WorkloadEffect
from services.kueue.processor.let_go import answers_of_copy
from services.kueue.processor.seen import WaitLimit
from services.kueue.processor.silence import let_go
from shared.kubernetes.explained_wait import ExplainedWait
from shared.kueue.workloads import KueueWorkload, WorkloadUid


class _Nobody:
    """Nobody is asked, and nothing is published: Coplace does when it returns. What lets Workloads
    go wants neither."""

    async def tell(self, event: Envelope) -> None:
        raise AssertionError(f"published while Coplace is silent: {event.id}")

    async def explain(self, job_id: str) -> ExplainedWait | None:
        raise AssertionError(f"asked while Coplace is silent: {job_id}")


class WorkloadReleaser(WorkloadReconciler):
    """Gives Workloads that wait for Coplace to Kueue's own rules, while it `may`."""

    def __init__(
        self,
        apis: Mapping[str, WorkloadApi],
        managers: Sequence[str],
        known: ClustersKnown,
        terms: KueueTerms,
        now_us: Callable[[], int],
        may: Callable[[], bool],
        odd: Callable[[str], object] = str,
    ) -> None:
        nobody = _Nobody()
        super().__init__(apis, managers, nobody, nobody, known, terms, WaitLimit(), now_us, odd)
        self._may = may
        self.let_go = 0
        """How many Workloads it gave to Kueue."""

    def look_at_all(self) -> None:
        """Look at all Workloads: whether it may has changed."""
        for workload in self.mirror.workloads():
            self.touch(workload.id)

    async def _wanted(self, uid: WorkloadUid) -> Sequence[WorkloadEffect]:
        workload = self.mirror.workload(uid)
        if workload is None or workload.is_deleted_there or not self._may():
            return ()
        if self.mirror.is_copy(workload):
            return self._of_copy(workload)
        record = await self._fresh(uid)
        return let_go(self._seen(uid), record, self._moment())

    def _of_copy(self, copy: KueueWorkload) -> Sequence[WorkloadEffect]:
        root = self.mirror.root(copy)
        record = self.mirror.record(root.id) if root else None
        if root is None or record is None or not record.is_let_go(root.reservation):
            return ()
        return answers_of_copy(copy, root, record, self.mirror.checks(copy.server))

    async def _kept(self, effect: KeepRecord | DropRecord) -> bool:
        is_kept = await super()._kept(effect)
        let_go_now = effect.record.let_go if isinstance(effect, KeepRecord) else None
        self.let_go += is_kept and let_go_now is not None and not let_go_now.cluster
        return is_kept

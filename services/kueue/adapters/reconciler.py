"""Carries out what follows from decisions and from the states of Workloads, one by one in order."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol
from weakref import WeakValueDictionary

import structlog
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.placement_pb2 import VERDICT_WITHDRAWN, PlacementDecided
from coplace.v1.pricing_pb2 import ChargeMade

from coplace_client.errors import RejectedError, UnusableError
from services.kueue.model.bodies import (
    nominated,
    recalled,
)
from services.kueue.model.facts import KueueTerms, id_of
from services.kueue.model.records import WorkloadRecord, name_of, recording
from services.kueue.model.states import WorkloadState, workload_state
from services.kueue.processor.answers import stray
from services.kueue.processor.decisions import obeying
from services.kueue.processor.effects import (
    AnswerCheck,
    Deactivate,
    DropRecord,
    KeepRecord,
    Nominate,
    NoteRecalled,
    NotifyOwner,
    WorkloadEffect,
    WriteEffect,
)
from services.kueue.processor.ends import ended_unseen
from services.kueue.processor.let_go import answers_of_copy
from services.kueue.processor.mirror import WorkloadMirror
from services.kueue.processor.reconcile import WORDS_EVERY_S, reconcile
from services.kueue.processor.seen import (
    Moment,
    SeenWorkload,
    Surroundings,
    WaitLimit,
    overdue,
)
from shared.domain.times import in_utc
from shared.kubernetes.api import (
    ApiConflictError,
    ApiError,
    ApiMissingError,
    ApiRefusedError,
    ApiUnavailableError,
)
from shared.kubernetes.charged import charged_words
from shared.kubernetes.decisions import DecisionsInOrder
from shared.kubernetes.effects import LookAgain, PublishFact
from shared.kubernetes.events import UserEvents, user_event
from shared.kubernetes.explained_wait import StartExplainer
from shared.kubernetes.facts import FactTaker
from shared.kubernetes.objects import condition_of, is_older, mapping_of
from shared.kubernetes.pods import RunPod, read_pod
from shared.kubernetes.work_list import WorkList
from shared.kueue.answers import Body, activated, checked, deactivated
from shared.kueue.names import ADMISSION_MANAGER, API_VERSION
from shared.kueue.workloads import KueueWorkload, WorkloadKey, WorkloadUid, identified

_RETRY_S: Final = 1.0
_REFUSED_RETRY_S: Final = 60.0
# A Workload that changes faster than it is looked at waits for its next turn.
_LOOKS_AT_ONCE: Final = 8
_ID_PARTS: Final = 6

log = structlog.get_logger(__name__)


class WorkloadApi(Protocol):
    """What of an API server is needed; `WorkloadServer` has it."""

    async def get(self, key: WorkloadKey) -> Mapping[str, Any]: ...
    async def patch(self, key: WorkloadKey, body: Body) -> Mapping[str, Any]: ...
    async def answer_checks(self, key: WorkloadKey, body: Body) -> Mapping[str, Any]: ...
    async def nominate(self, key: WorkloadKey, body: Body) -> Mapping[str, Any]: ...
    async def group_pods(self, key: WorkloadKey) -> Sequence[Mapping[str, Any]]: ...
    async def get_record(self, uid: str) -> Mapping[str, Any]: ...
    async def create_record(self, body: Body) -> Mapping[str, Any]: ...
    async def patch_record(self, uid: str, body: Body) -> Mapping[str, Any]: ...
    async def delete_record(self, uid: str, version: str) -> None: ...
    async def activate(self, name: str, body: Body) -> None: ...
    async def tell(self, namespace: str, event: Body) -> None: ...


@dataclass(frozen=True, slots=True)
class ClustersKnown:
    """What is known of the clusters on which Workloads run, by name: the labels of their nodes, and
    which nodes they declared, with the label by which pods ask for each."""

    selectors: Mapping[str, Mapping[str, str]]
    hostnames: Callable[[str], Mapping[str, str]]


class WorkloadReconciler:
    """Keeps nothing that the API servers and Coplace's topics do not have, but what it saw and what
    it published: after a restart it sees and publishes it again.

    A Workload that cannot be dealt with is set aside with the reason, and looked at again when it
    changes and each minute; the others go on.
    """

    def __init__(
        self,
        apis: Mapping[str, WorkloadApi],
        managers: Sequence[str],
        facts: FactTaker,
        explainer: StartExplainer,
        known: ClustersKnown,
        terms: KueueTerms,
        patience: WaitLimit,
        now_us: Callable[[], int],
        odd: Callable[[str], object] = str,
    ) -> None:
        self._apis, self._facts, self._explainer, self._known = apis, facts, explainer, known
        self._terms, self._patience, self._now_us, self._odd = terms, patience, now_us, odd
        self.mirror = WorkloadMirror(lambda each: id_of(each, terms), known.selectors, managers)
        self._own = tuple(f"{terms.site}/{server}/" for server in apis)
        self._locks: WeakValueDictionary[WorkloadUid, asyncio.Lock] = WeakValueDictionary()
        self._told: defaultdict[WorkloadUid, set[str]] = defaultdict(set)
        self._asked: dict[WorkloadUid, tuple[str, int]] = {}
        self._over: dict[WorkloadUid, tuple[int, int]] = {}
        self._worded: dict[WorkloadUid, int] = {}
        self._aside: dict[WorkloadUid, str] = {}
        self._work = WorkList(self._look_locked)
        self._events = UserEvents(apis)
        self._decisions = DecisionsInOrder(self._of_id, self._obeyed, self._set_aside, _RETRY_S)

    # What API servers say.

    def replace(self, cluster: str, found: Sequence[Mapping[str, Any]]) -> None:
        """Replace all Workloads of an API server."""
        there = (self._identified(cluster, fields) for fields in found)
        for uid in self.mirror.replace(cluster, (each for each in there if each)):
            self.touch(uid)

    def changed(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Note that a Workload is new, or has changed."""
        if workload := self._identified(cluster, found):
            self.mirror.put(workload)
            self.touch(workload.id)

    def deleted(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Note that a Workload was deleted."""
        if workload := self._identified(cluster, found):
            self.mirror.put(workload)
            self.mirror.note_deleted(workload.id)
            self.touch(workload.id)

    def _identified(self, cluster: str, found: Mapping[str, Any]) -> KueueWorkload | None:
        try:
            return identified(cluster, found)
        except RejectedError as error:
            log.error("not a Workload", cluster=cluster, problem=str(error))
            self._odd(cluster)
            return None

    def replace_records(self, cluster: str, found: Sequence[Mapping[str, Any]]) -> None:
        """Replace all records of an API server."""
        there = [each for each in found if self._is_record(cluster, each)]
        for uid in self.mirror.replace_records(cluster, there):
            self.touch(uid)

    def see_record(
        self, cluster: str, found: Mapping[str, Any], *, is_removed: bool = False
    ) -> None:
        """Note a record that is new, has changed or was deleted."""
        if not self._is_record(cluster, found):
            return
        if is_removed:
            uid = WorkloadUid(cluster, name_of(found).uid)
            self.mirror.note_dropped(uid)
        else:
            uid = self.mirror.put_record(cluster, found)
        self.touch(uid)

    def _is_record(self, cluster: str, found: Mapping[str, Any]) -> bool:
        try:
            name_of(found)
        except RejectedError as error:
            log.error("not a record", cluster=cluster, problem=str(error))
            self._odd(cluster)
            return False
        return True

    def replace_pods(self, cluster: str, found: Sequence[Mapping[str, Any]]) -> None:
        """Note all pods of a cluster that Coplace started: others were deleted."""
        for uid in self.mirror.lose_pods(cluster, found, self._now_us()):
            self.touch(uid)
        for pod in found:
            self.see_pod(cluster, pod)

    def see_pod(self, cluster: str, pod: Mapping[str, Any], *, is_removed: bool = False) -> None:
        """Note a pod, as it is or as it was at last."""
        removed_us = self._now_us() if is_removed else 0
        uid = self.mirror.see_pod(cluster, mapping_of(pod), removed_us)
        if uid is not None:
            self.touch(uid)

    def note_checks(self, cluster: str, checks: Mapping[str, Mapping[str, Any]]) -> None:
        """Note the AdmissionChecks of an API server."""
        self.mirror.note_checks(cluster, checks)
        self._touch_all(cluster)

    def note_configs(self, cluster: str, configs: Mapping[str, Mapping[str, Any]]) -> None:
        """Note the MultiKueueConfigs of an API server."""
        self.mirror.note_configs(cluster, configs)
        self._touch_all(cluster)

    def note_flavors(self, cluster: str, flavors: Mapping[str, Mapping[str, Any]]) -> None:
        """Note the ResourceFlavors of an API server."""
        self.mirror.note_flavors(cluster, flavors)

    def _touch_all(self, cluster: str) -> None:
        for uid in self.mirror.uids(cluster):
            self.touch(uid)

    async def activate(self, cluster: str) -> None:
        """Say of the AdmissionChecks of an API server that they are answered. Raises ApiError."""
        for each in self.mirror.own_checks(cluster):
            if condition_of(mapping_of(each.get("status")), "Active") is None:
                name = str(mapping_of(each.get("metadata")).get("name"))
                await self._api(cluster).activate(name, activated(each, self._now_us()))
                log.info("answers the check", cluster=cluster, check=name)

    async def note_charge(self, charge: ChargeMade) -> None:
        """Notify the user of a Workload of what its run cost, while it is there."""
        uid = self.mirror.of_id(charge.job_id)
        workload = self.mirror.workload(uid) if uid else None
        if workload is not None and not workload.is_deleted_there:
            effect = NotifyOwner(workload, "Charged", charged_words(charge))
            self._tell_user(workload, effect)

    def states(self) -> Iterator[tuple[str, WorkloadState]]:
        """Yield the API server and the state of each Workload that has to do with Coplace."""
        for workload in self.mirror.workloads():
            if not self.mirror.is_copy(workload):
                state = self._state(workload)
                if state is not None:
                    yield workload.server, state

    def _state(self, workload: KueueWorkload) -> WorkloadState | None:
        try:
            record = self.mirror.record(workload.id)
        except RejectedError:
            return WorkloadState.ASIDE
        asks = self.mirror.checks(workload.server).asks(workload)
        return workload_state(record, asks=asks, is_aside=workload.id in self._aside)

    # What is to be done.

    def touch(self, uid: WorkloadUid) -> None:
        """Note that something may have to be done about a Workload."""
        workload = self.mirror.workload(uid)
        if workload is not None and self.mirror.is_copy(workload):
            root = self.mirror.root(workload)
            if root is not None:
                self._work.touch(root.id)
        self._work.touch(uid)

    async def work(self) -> None:
        """Do what is to be done about touched Workloads, until cancelled."""
        await self._work.work()

    async def tell_users(self) -> None:
        """Create the events that users read, until cancelled."""
        await self._events.run()

    async def work_off(self) -> None:
        """Do what has to be done about Workloads, until nothing is left."""
        await self._work.work_off()
        await self._events.work_off()

    async def obey(self, decisions: Sequence[PlacementDecided]) -> None:
        """Carry out decisions, of a Workload in order, of several at once; returns when what
        follows is in the records, over failures of the API servers."""
        await self._decisions.obey(decisions)

    async def _obeyed(self, decision: PlacementDecided, uid: WorkloadUid | None) -> bool:
        if uid is None:
            return await self._carry_out(obeying(decision, None, None, self._moment()))
        async with self._lock(uid):
            record = await self._fresh(uid)
            seen = self._seen(uid)
            if decision.verdict == VERDICT_WITHDRAWN and seen.copy is not None:
                seen = replace(seen, copy=await self._copy_now(seen.copy))
            done = await self._carry_out(obeying(decision, seen, record, self._moment()))
        self._work.touch(uid, is_urgent=True)
        return done

    async def _copy_now(self, copy: KueueWorkload) -> KueueWorkload | None:
        """Return a copy as it is now: by the last one that was seen a start might be recalled that
        was answered a moment ago. None where its API server does not say."""
        try:
            return await self._fetched(copy.key)
        except ApiError as error:
            log.warning("not recalled", workload=str(copy.key), problem=str(error))
            return None

    async def _of_id(self, job_id: str) -> WorkloadUid | None:
        """Return the Workload of an id: asked for where it was not seen, so that none is taken to
        be deleted."""
        found, parts = self.mirror.of_id(job_id), job_id.split("/")
        if found is not None or not job_id.startswith(self._own) or len(parts) != _ID_PARTS:
            return found
        workload = await self._fetched(WorkloadKey(*parts[1:4]))
        is_it = workload is not None and id_of(workload, self._terms) == job_id
        return workload.id if workload and is_it else None

    async def _fetched(self, key: WorkloadKey) -> KueueWorkload | None:
        """Return a Workload as it is now; None where its API server has none of that name."""
        try:
            workload = identified(key.server, await self._api(key.server).get(key))
        except ApiMissingError:
            if before := self.mirror.at(key):
                self.mirror.note_deleted(before.id)
            return None
        if (before := self.mirror.at(key)) is not None and before.id != workload.id:
            self.mirror.note_deleted(before.id)
            self.touch(before.id)
        self.mirror.put(workload)
        return workload

    def _api(self, server: str) -> WorkloadApi:
        return self._apis[server]

    def _moment(self) -> Moment:
        return Moment(self._terms, self._now_us(), self._patience)

    def _lock(self, uid: WorkloadUid) -> asyncio.Lock:
        return self._locks.setdefault(uid, asyncio.Lock())

    async def _look_locked(self, uid: WorkloadUid) -> None:
        async with self._lock(uid):
            await self._look_guarded(uid)

    async def _look_guarded(self, uid: WorkloadUid) -> None:
        """Do what follows from the state of a Workload, or look at it again when that fails."""
        try:
            await self._look(uid)
        except ApiUnavailableError as error:
            log.warning("tried again", workload="/".join(uid), problem=str(error))
            self._work.later(uid, _RETRY_S)
        except Exception as error:  # noqa: BLE001 no Workload may hold up others
            self._set_aside(uid, error)
        else:
            self._aside.pop(uid, None)

    def _set_aside(self, uid: WorkloadUid, error: Exception) -> None:
        """Leave a Workload that fails; where nobody expected it, the log has the place."""
        is_expected = isinstance(error, UnusableError)
        if self._aside.get(uid) != str(error):
            words = {"workload": "/".join(uid), "problem": repr(error)}
            log.error("set aside", **words, exc_info=not is_expected)
        self._aside[uid] = str(error)
        self._work.later(uid, _REFUSED_RETRY_S)

    async def _look(self, uid: WorkloadUid) -> None:
        for _ in range(_LOOKS_AT_ONCE):
            wanted = await self._wanted(uid)
            if not await self._carry_out(wanted) or any(isinstance(e, _WRITES) for e in wanted):
                continue
            waits = [each.after_s for each in wanted if isinstance(each, LookAgain)]
            if waits:
                self._work.later(uid, min(waits))
            else:
                self._forget_deleted(uid)
            return
        self._work.later(uid, _RETRY_S)

    def _forget_deleted(self, uid: WorkloadUid) -> None:
        """Forget a Workload that is not there any more, once nothing is left to do about it."""
        workload = self.mirror.workload(uid)
        if workload is not None and workload.is_deleted_there:
            self._lose(uid)

    def _lose(self, uid: WorkloadUid) -> None:
        self.mirror.remove(uid)
        for known in (self._told, self._asked, self._over, self._worded, self._aside):
            known.pop(uid, None)

    async def _wanted(self, uid: WorkloadUid) -> Sequence[WorkloadEffect]:
        workload = self.mirror.workload(uid)
        if workload is None:
            return ()
        if self.mirror.is_copy(workload):
            return self._of_copy(workload)
        record, moment = await self._fresh(uid), self._moment()
        seen = await self._with_explained(self._noted(uid, record), record, moment)
        if record is not None and ended_unseen(seen, record):
            seen = replace(seen, pods=await self._group_of(workload) or seen.pods)
        told = self._told.get(uid, ())
        return [
            each
            for each in reconcile(seen, record, moment)
            if not (isinstance(each, PublishFact) and each.event.id in told)
        ]

    async def _group_of(self, workload: KueueWorkload) -> Sequence[RunPod]:
        """Return the pods of a user's at a manager, where MultiKueue writes what becomes of their
        copies; none where not all of them have ended there."""
        try:
            found = await self._api(workload.server).group_pods(workload.key)
        except ApiRefusedError as error:
            log.warning("its end was not seen", workload=str(workload.key), problem=str(error))
            return ()
        pods = [read_pod(each) for each in found]
        return pods if all(each.is_over for each in pods) else ()

    async def _fresh(self, uid: WorkloadUid) -> WorkloadRecord | None:
        """Return the record of a Workload, which is then seen at least as new as it was when that
        was written: lists and watches of both are not one."""
        record, workload = self.mirror.record(uid), self.mirror.workload(uid)
        if record is not None and workload is not None and _is_seen_before(workload, record):
            now = await self._fetched(workload.key)
            if now is None or now.id != uid:
                self.mirror.note_deleted(workload.id)
        return record

    def _of_copy(self, copy: KueueWorkload) -> Sequence[WorkloadEffect]:
        """What runs for a Workload of a manager is that one's concern."""
        root = self.mirror.root(copy)
        record = self.mirror.record(root.id) if root else None
        claim = record.claim if record else None
        checks = self.mirror.checks(copy.server)
        if root is not None and record is not None and record.is_let_go(root.reservation):
            return answers_of_copy(copy, root, record, checks)
        if claim is not None and claim.is_live and claim.cluster == copy.server:
            return ()
        wanted = stray(copy, checks)
        if not wanted:
            return ()
        waited_us = self._now_us() - self._since(copy, asks=True)
        if waited_us < self._patience.waits_us:
            return [LookAgain((self._patience.waits_us - waited_us) / 1e6)]
        return wanted

    def _seen(self, uid: WorkloadUid) -> SeenWorkload:
        """Return a Workload with what is around it. Raises KeyError where it was forgotten."""
        workload, record = self.mirror.workload(uid), self.mirror.record(uid)
        if workload is None:
            raise KeyError(uid)
        kept = record.cluster if record else ""
        cluster = kept or workload.chosen_cluster or workload.server
        around = Surroundings(
            checks=self.mirror.checks(workload.server),
            copy_checks=self.mirror.checks(cluster),
            selector=self._known.selectors.get(cluster, {}),
            flavors=self.mirror.flavors(cluster),
            hostnames=self._known.hostnames(cluster),
            cluster=cluster,
        )
        copy = self.mirror.copy(workload, record) if record else None
        pods, is_known = self.mirror.pods(uid), bool(self._told.get(uid))
        return SeenWorkload(workload, copy, pods, around, is_known=is_known)

    def _noted(self, uid: WorkloadUid, record: WorkloadRecord | None) -> SeenWorkload:
        """Return a Workload with what is around it, and since when that is so."""
        seen = self._seen(uid)
        asks = seen.around.checks.asks(seen.workload)
        asked_us = self._since(seen.workload, asks=asks)
        return replace(seen, asked_us=asked_us, over_us=self._over_since(seen, record))

    def _since(self, workload: KueueWorkload, *, asks: bool) -> int:
        """Return since when a Workload was seen to wait with its reservation; by the clock of this
        process, whatever those of others say."""
        if not asks:
            self._asked.pop(workload.id, None)
            return 0
        before = self._asked.get(workload.id)
        if before is None or before[0] != workload.reservation:
            before = self._asked[workload.id] = (workload.reservation, self._now_us())
        return before[1]

    def _over_since(self, seen: SeenWorkload, record: WorkloadRecord | None) -> int:
        """Return since when a Workload was seen not to run any more under its newest grant."""
        workload = seen.workload
        reservation = ""
        if record is not None and record.claim.is_live:
            reservation = record.reservation
        elif record is not None and record.let_go is not None:
            reservation = record.let_go.reservation
        is_on = not workload.is_over and workload.reservation == reservation
        if record is None or not reservation or is_on:
            self._over.pop(workload.id, None)
            return 0
        before = self._over.get(workload.id)
        if before is None or before[0] != record.run_label:
            before = self._over[workload.id] = (record.run_label, self._now_us())
        return before[1]

    async def _with_explained(
        self, seen: SeenWorkload, record: WorkloadRecord | None, moment: Moment
    ) -> SeenWorkload:
        """Return a Workload with why it waits, where that is to be said now."""
        uid, last_us = seen.workload.id, self._worded.get(seen.workload.id, 0)
        is_granted = record is not None and (record.claim.is_live or record.hold.is_held)
        is_said = last_us > 0 and moment.now_us - last_us < WORDS_EVERY_S * 1e6
        if is_granted or is_said or not overdue(seen, moment):
            return seen
        if seen.around.checks.own_of(seen.workload):
            self._worded.pop(uid, None)
        else:
            self._worded[uid] = moment.now_us
        explained = await self._explainer.explain(id_of(seen.workload, self._terms))
        return replace(seen, explained=explained)

    # How it is done.

    async def _carry_out(self, effects: Sequence[WorkloadEffect]) -> bool:
        """False where something was otherwise than it was seen: then it has been seen anew."""
        for effect in effects:
            if not await self._done(effect):
                return False
        return True

    async def _done(self, effect: WorkloadEffect) -> bool:
        match effect:
            case PublishFact(event):
                await self._tell(event)
            case NotifyOwner(workload):
                self._tell_user(workload, effect)
            case KeepRecord() | DropRecord():
                return await self._kept(effect)
            case AnswerCheck() | Nominate() | NoteRecalled() | Deactivate():
                return await self._written(effect)
        return True

    async def _tell(self, event: Envelope) -> None:
        await self._facts.tell(event)
        fact = getattr(event, event.WhichOneof("payload") or "")
        uid = self.mirror.of_id(fact.job_id)
        if uid is not None:
            self._told[uid].add(event.id)

    async def _kept(self, effect: KeepRecord | DropRecord) -> bool:
        workload, record = effect.workload, effect.record
        api, uid = self._api(workload.server), workload.id
        try:
            if isinstance(effect, DropRecord):
                await api.delete_record(uid.uid, record.version)
                self._drop(uid)
            else:
                body = recording(workload, record)
                asked = (
                    api.patch_record(uid.uid, body) if record.version else api.create_record(body)
                )
                self.mirror.put_record(uid.server, await asked)
        except (ApiConflictError, ApiMissingError):
            await self._record_fetched(uid)
            return False
        log.info(str(effect), workload="/".join(workload.key))
        self.touch(uid)
        return True

    async def _record_fetched(self, uid: WorkloadUid) -> None:
        """Note the record of a Workload as it is now."""
        try:
            self.mirror.put_record(uid.server, await self._api(uid.server).get_record(uid.uid))
        except ApiMissingError:
            self._drop(uid)

    def _drop(self, uid: WorkloadUid) -> None:
        """Forget what was known of a Workload: its end was published."""
        self.mirror.drop_record(uid)
        self._told.pop(uid, None)

    async def _written(self, effect: WriteEffect) -> bool:
        workload = effect.workload
        if workload.is_deleted_there:
            return True
        try:
            fields = await self._write(effect)
        except (ApiConflictError, ApiMissingError):
            await self._fetched(workload.key)
            return False
        if fields is None:
            return False
        log.info(str(effect), workload="/".join(workload.key))
        self.mirror.put(identified(workload.server, fields))
        self.touch(workload.id)
        return True

    async def _write(self, effect: WriteEffect) -> Mapping[str, Any] | None:
        """Return what a Workload is then; None where it is another than was seen."""
        workload = effect.workload
        api, key = self._api(workload.server), workload.key
        match effect:
            case AnswerCheck(_, names, state, message, updates, requeue_s):
                more: dict[str, Any] = {"updates": updates, "requeue_s": requeue_s}
                body = checked(workload, names, state, message, self._now_us(), **more)
                return await api.answer_checks(key, body)
            case Deactivate():
                return await api.patch(key, deactivated(workload))
            case NoteRecalled(_, grant):
                return await api.patch(key, recalled(workload, grant))
            case Nominate(_, clusters):
                return await self._nominated(workload, clusters)
        return None

    async def _nominated(
        self, workload: KueueWorkload, clusters: Sequence[str]
    ) -> Mapping[str, Any] | None:
        """Nominate with all that Kueue owns there: who owns what is not kept here."""
        api, key = self._api(workload.server), workload.key
        whole = await api.get(key)
        if mapping_of(whole.get("metadata")).get("resourceVersion") != workload.resource_version:
            self.mirror.put(identified(key.server, whole))
            return None
        body = nominated(KueueWorkload(key.server, whole), clusters, ADMISSION_MANAGER)
        return await api.nominate(key, body)

    def _tell_user(self, workload: KueueWorkload, effect: NotifyOwner) -> None:
        key, at = workload.key, in_utc(time.time())
        about = {
            "apiVersion": API_VERSION,
            "kind": "Workload",
            "name": key.name,
            "namespace": key.namespace,
            "uid": workload.id.uid,
        }
        words = (effect.reason, effect.message, at)
        self._events.add(key.server, user_event(about, *words, is_warning=effect.is_warning))


_WRITES: Final = (KeepRecord, DropRecord, AnswerCheck, Nominate, NoteRecalled, Deactivate)


def _is_seen_before(workload: KueueWorkload, record: WorkloadRecord) -> bool:
    """Return whether a Workload was seen as it was before its record was decided on."""
    if workload.is_deleted_there:
        return False
    version, least = workload.resource_version, record.workload_version
    return not version or is_older(version, least)

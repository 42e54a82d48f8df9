"""Gives all Workloads back to Kueue, which starts them by its own rules."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import quote

from services.kueue.adapters.api import CONFIGS, FLAVORS, RECORDS
from services.kueue.adapters.reconciler import ClustersKnown, WorkloadApi
from services.kueue.adapters.silence import WorkloadReleaser
from services.kueue.model.facts import KueueTerms
from services.kueue.settings import KueueClusters
from shared.kubernetes.clusters import labels_of
from shared.kubernetes.objects import mapping_of, mappings_of
from shared.kueue.names import API_VERSION, PLACEMENT_CHECK
from shared.kueue.paths import CHECKS, WORKLOADS

CLUSTER_QUEUES: Final = f"/apis/{API_VERSION}/clusterqueues"
# MultiKueue copies a Workload a moment after it was nominated, and Kueue gives quota then.
_ROUNDS: Final = 3


class WorkloadsReleased(NamedTuple):
    """How many Workloads are Kueue's now, and which queues of which API servers ask Coplace no
    more."""

    workloads: int
    queues: Sequence[str]


class KueueApi(WorkloadApi, Protocol):
    """What of an API server is needed; `WorkloadServer` has it."""

    async def list(self, path: str, selector: str) -> tuple[Sequence[Mapping[str, Any]], str]: ...
    async def merge(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]: ...


async def give_back(
    apis: Mapping[str, KueueApi],
    there: KueueClusters,
    terms: KueueTerms,
    now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
) -> WorkloadsReleased:
    """Let all go that waits, have no queue ask Coplace any more, and let go what came meanwhile.
    Raises ApiError."""
    releaser = WorkloadReleaser(
        apis,
        [each.name for each in there.managers],
        ClustersKnown({each.name: labels_of(each) for each in there.clusters}, lambda _: {}),
        terms,
        now_us,
        lambda: True,
    )
    await _let_go(apis, releaser)
    queues = [f"{name} of {at}" for at, api in apis.items() for name in await _unasked(api)]
    for _ in range(_ROUNDS):
        await _let_go(apis, releaser)
    return WorkloadsReleased(releaser.let_go, queues)


async def _let_go(apis: Mapping[str, KueueApi], releaser: WorkloadReleaser) -> None:
    """Look at all there is now, once."""
    for name, api in apis.items():
        releaser.note_checks(name, await _named(api, CHECKS))
        releaser.note_configs(name, await _named(api, CONFIGS))
        releaser.note_flavors(name, await _named(api, FLAVORS))
    for name, api in apis.items():
        releaser.replace(name, (await api.list(WORKLOADS, ""))[0])
        releaser.replace_records(name, (await api.list(RECORDS, ""))[0])
    releaser.look_at_all()
    await releaser.work_off()


async def _named(api: KueueApi, path: str) -> Mapping[str, Mapping[str, Any]]:
    found, _ = await api.list(path, "")
    return {str(mapping_of(each.get("metadata")).get("name")): each for each in found}


async def _unasked(api: KueueApi) -> list[str]:
    """Take the checks of Coplace out of all queues of an API server; return which had any."""
    checks = await _named(api, CHECKS)
    own = {
        name
        for name, each in checks.items()
        if mapping_of(each.get("spec")).get("controllerName") == PLACEMENT_CHECK
    }
    queues = await _named(api, CLUSTER_QUEUES)
    changed = dict(_without(queues, own))
    for name, body in changed.items():
        await api.merge(f"{CLUSTER_QUEUES}/{quote(name)}", body)
    return list(changed)


def _without(
    queues: Mapping[str, Mapping[str, Any]], own: set[str]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield what is to change of the queues that name these checks."""
    for name, queue in queues.items():
        strategy = mapping_of(mapping_of(queue.get("spec")).get("admissionChecksStrategy"))
        before = mappings_of(strategy.get("admissionChecks"))
        kept = [each for each in before if each.get("name") not in own]
        if len(kept) < len(before):
            version = mapping_of(queue.get("metadata")).get("resourceVersion")
            spec = {"admissionChecksStrategy": {"admissionChecks": kept} if kept else None}
            yield name, {"metadata": {"resourceVersion": version}, "spec": spec}

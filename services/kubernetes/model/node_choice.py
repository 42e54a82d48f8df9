"""Where the pods of a Job may run, by what their template says."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from coplace_client.errors import RejectedError
from services.kubernetes.model.jobs import KubernetesJob
from services.kubernetes.model.names import MANAGED_BY, NODE_PER_INDEX
from shared.kubernetes.names import HOSTNAME
from shared.kubernetes.node_terms import selected
from shared.kubernetes.objects import mapping_of, texts_of, whole_of
from shared.kubernetes.tolerations import tolerations_of

_POD: Final = "spec.template.spec"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_AFFINITIES: Final = ("nodeAffinity", "podAffinity", "podAntiAffinity")
_SPREAD: Final = "topologySpreadConstraints"
JOB_NAMES: Final = ("job-name", "batch.kubernetes.io/job-name")
"""Labels that the Job controller gives to the pods of a Job."""


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """Nodes with all of the `features`, in the `partition` (empty: those without taints), so many
    pods on one at most (0: any number). The Job `is_alone` on them where its pods keep away from
    pods of others. What is `ignored` is a wish that nobody follows."""

    features: str
    partition: str
    pods_per_node: int
    is_alone: bool = False
    ignored: Sequence[str] = ()


def node_choice(job: KubernetesJob) -> NodeChoice:
    """Return where the pods of a Job may run. Raises RejectedError, which names what cannot be
    followed."""
    pod = job.pod
    for name, problem in (
        ("nodeName", "must not be set: Coplace chooses the nodes"),
        ("resourceClaims", "cannot be followed: request an extended resource"),
    ):
        if pod.get(name):
            raise RejectedError(f"{_POD}.{name}", problem)
    apart = [*_by_affinity(job), *_by_spread(job)]
    if wants_node_per_index(job):
        _require_indexes(job, apart)
        apart.append(_Apart(1, is_of_others=False))
    return NodeChoice(
        features=selected(pod, _POD),
        partition=tolerations_of(pod, _POD).partition,
        pods_per_node=min((each.most for each in apart), default=0),
        is_alone=any(each.is_of_others for each in apart),
        ignored=tuple(_ignored(pod)),
    )


class _Apart(NamedTuple):
    """So many pods may be on a node, also with those of other Jobs where it `is_of_others`."""

    most: int
    is_of_others: bool


def wants_node_per_index(job: KubernetesJob) -> bool:
    """Return whether each index of a Job is to have a node of its own among them."""
    return job.annotations.get(NODE_PER_INDEX) == "true"


def _require_indexes(job: KubernetesJob, apart: Sequence[_Apart]) -> None:
    """Raise RejectedError where indexes do not run together, or nothing would separate them:
    what is let run gets no anti-affinity, a copy does."""
    field, spec = f"metadata.annotations[{NODE_PER_INDEX}]", job.spec
    if spec.get("completionMode") != "Indexed":
        raise RejectedError(field, "is for Jobs with completionMode: Indexed")
    if job.pods != whole_of(spec.get("completions")):
        raise RejectedError(
            "spec.parallelism", "must be as many as the completions, for a node each"
        )
    if not (job.is_managed or any(each.most == 1 for each in apart)):
        problem = f"needs spec.managedBy: {MANAGED_BY}, or pods that keep away from each other"
        raise RejectedError(field, problem)


def _by_affinity(job: KubernetesJob) -> Iterator[_Apart]:
    affinity = mapping_of(job.pod.get("affinity"))
    if mapping_of(affinity.get("podAffinity")).get(_REQUIRED):
        field = f"{_POD}.affinity.podAffinity.{_REQUIRED}"
        raise RejectedError(field, "cannot be followed: Coplace does not know of other pods")
    field = f"{_POD}.affinity.podAntiAffinity.{_REQUIRED}"
    for number, term in enumerate(
        _list(mapping_of(affinity.get("podAntiAffinity")).get(_REQUIRED))
    ):
        yield _Apart(1, _is_of_others(f"{field}[{number}]", job, mapping_of(term)))


def _by_spread(job: KubernetesJob) -> Iterator[_Apart]:
    """Where no node has more than the skew, no two nodes differ by more."""
    for number, each in enumerate(_list(job.pod.get(_SPREAD))):
        term = mapping_of(each)
        if term.get("whenUnsatisfiable") != "ScheduleAnyway":
            skew = max(1, whole_of(term.get("maxSkew")) or 1)
            yield _Apart(skew, _is_of_others(f"{_POD}.{_SPREAD}[{number}]", job, term))


def _is_of_others(field: str, job: KubernetesJob, term: Mapping[str, Any]) -> bool:
    """Return whether pods of other Jobs may be meant too. Raises RejectedError for what is not
    about pods of this one, or about more than a node."""
    if term.get("topologyKey") != HOSTNAME:
        raise RejectedError(f"{field}.topologyKey", f"must be {HOSTNAME}: others are not followed")
    selector = mapping_of(term.get("labelSelector"))
    named, own = texts_of(selector.get("matchLabels")), dict.fromkeys(JOB_NAMES, job.key.name)
    labels = {**texts_of(mapping_of(job.template.get("metadata")).get("labels")), **own}
    is_own = all(labels.get(name) == value for name, value in named.items())
    if selector.get("matchExpressions") or not (named and is_own):
        problem = "must select the pods of the Job, by matchLabels"
        raise RejectedError(f"{field}.labelSelector", problem)
    return not set(named).intersection(JOB_NAMES)


def _ignored(pod: Mapping[str, Any]) -> Iterator[str]:
    affinity = mapping_of(pod.get("affinity"))
    for name in _AFFINITIES:
        if mapping_of(affinity.get(name)).get(_PREFERRED):
            yield f"the preferred {name}"
    if any(
        mapping_of(each).get("whenUnsatisfiable") == "ScheduleAnyway"
        for each in _list(pod.get(_SPREAD))
    ):
        yield "the preferred topology spread"


def _list(told: object) -> Sequence[Any]:
    return told if isinstance(told, list) else ()

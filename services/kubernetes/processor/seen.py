"""What was seen of a Job and of what runs for it."""

from collections.abc import Sequence
from dataclasses import dataclass

from services.kubernetes.model.jobs import KubernetesJob
from shared.kubernetes.pods import RunPod
from shared.kueue.workloads import KueueWorkload


@dataclass(frozen=True, slots=True)
class PodDisruption:
    """That pods of a run were ended by Kubernetes, not by themselves; `failed_nodes` are those that
    were lost with them."""

    reason: str
    failed_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SeenJob:
    """A Job, what runs for it (itself, or its copy on another cluster), how Kubernetes ended pods
    of that, its pods, and its Workload in Kueue; None: it is not there."""

    job: KubernetesJob | None
    run: KubernetesJob | None = None
    disruption: PodDisruption | None = None
    pods: Sequence[RunPod] = ()
    workload: KueueWorkload | None = None

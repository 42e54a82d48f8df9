"""What was seen of a Job and of what runs for it."""

from collections.abc import Sequence
from dataclasses import dataclass

from services.kubernetes.model.jobs import KubernetesJob
from services.kubernetes.model.run_pods import PodDisruption
from shared.kubernetes.pods import RunPod
from shared.kueue.workloads import KueueWorkload


@dataclass(frozen=True, slots=True)
class SeenJob:
    """A Job, what runs for it (itself, or its copy on another cluster), how Kubernetes ended pods
    of that, its pods, and its Workload in Kueue; None: it is not there."""

    job: KubernetesJob | None
    run: KubernetesJob | None = None
    disruption: PodDisruption | None = None
    pods: Sequence[RunPod] = ()
    workload: KueueWorkload | None = None

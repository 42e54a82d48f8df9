"""Six kinds of Workloads, as users submit them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from shared.kueue.names import APP
from tests.kueue.cluster import NAMESPACE

JOBSETS: Final = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{NAMESPACE}/jobsets"
PYTORCHJOBS: Final = f"/apis/kubeflow.org/v1/namespaces/{NAMESPACE}/pytorchjobs"
_JOBS: Final = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
_PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
_QUEUE: Final = "kueue.x-k8s.io/queue-name"
_LIMIT: Final = "kueue.x-k8s.io/max-exec-time-seconds"
_GROUP: Final = "kueue.x-k8s.io/pod-group-name"
_GROUP_OF: Final = "kueue.x-k8s.io/pod-group-total-count"
# A CronJob calls its Jobs by the minute for which each is.
_MINUTE: Final = 29_500_000
OF: Final = "coplace-test/of"
"""Annotation of pods: the Workload that they are of."""
SHAPES: Final = ((1, 1), (1, 4), (2, 2), (4, 1))
"""Pods, and the cores of each."""
POD_GROUP: Final = "pod group"
KINDS: Final = ("Job", "Indexed Job", "JobSet", POD_GROUP, "Job of a CronJob", "PyTorchJob")


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a user submits: its pods in all, and the objects with the paths at which to create
    them."""

    name: str
    kind: str
    pods: int
    objects: Sequence[tuple[str, Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class _Asked:
    name: str
    queue: str
    pods: int
    cpu: int
    run_s: float
    app: str

    @property
    def labels(self) -> Mapping[str, str]:
        return {_QUEUE: self.queue, _LIMIT: "600"}

    @property
    def template(self) -> dict[str, Any]:
        """Pods that run for so many seconds."""
        container = {
            "name": "main",
            "image": "none",
            "resources": {"requests": {"cpu": str(self.cpu)}},
        }
        told = {"runs-s": json.dumps(self.run_s), OF: self.name}
        spec = {"restartPolicy": "Never", "containers": [container]}
        labels = {APP: self.app} if self.app else {}
        return {"metadata": {"annotations": told, "labels": labels}, "spec": spec}

    def of(
        self, version: str, kind: str, spec: Mapping[str, Any], **more: Any
    ) -> Mapping[str, Any]:
        """An object of the user's."""
        metadata = {"name": self.name, "namespace": NAMESPACE, "labels": self.labels, **more}
        return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def drawn(
    rng: Random,
    name: str,
    queue: str,
    run_s: float,
    shapes: Sequence[tuple[int, int]] = SHAPES,
    apps: Sequence[str] = ("",),
) -> Drawn:
    """Draw what a user submits."""
    kind = rng.choice(KINDS)
    pods, cpu = rng.choice(shapes)
    runs_s = round(rng.uniform(run_s / 2, run_s * 1.5), 2)
    asked = _Asked(name, queue, pods, cpu, runs_s, rng.choice(apps))
    return Drawn(name, kind, pods, list(_OBJECTS[kind](asked)))


def _job(asked: _Asked) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield _JOBS, asked.of("batch/v1", "Job", _job_spec(asked))


def _indexed(asked: _Asked) -> Iterator[tuple[str, Mapping[str, Any]]]:
    spec = {**_job_spec(asked), "completionMode": "Indexed"}
    yield _JOBS, asked.of("batch/v1", "Job", spec)


def _of_cron_job(asked: _Asked) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """As its controller creates it."""
    owner = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "name": asked.name,
        "uid": f"00000000-0000-4000-8000-{abs(hash(asked.name)) % 10**12:012}",
        "controller": True,
    }
    named = {"name": f"{asked.name}-{_MINUTE}", "ownerReferences": [owner]}
    yield _JOBS, asked.of("batch/v1", "Job", _job_spec(asked), **named)


def _job_set(asked: _Asked) -> Iterator[tuple[str, Mapping[str, Any]]]:
    parts = [{"name": "all", "replicas": 1, "template": {"spec": _job_spec(asked)}}]
    yield JOBSETS, asked.of("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": parts})


def _pytorch(asked: _Asked) -> Iterator[tuple[str, Mapping[str, Any]]]:
    template = asked.template
    template["spec"]["containers"][0]["name"] = "pytorch"
    parts = {"Master": {"replicas": 1, "template": template}}
    if asked.pods > 1:
        parts["Worker"] = {"replicas": asked.pods - 1, "template": template}
    yield PYTORCHJOBS, asked.of("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": parts})


def _pod_group(asked: _Asked) -> Iterator[tuple[str, Mapping[str, Any]]]:
    template = asked.template
    for number in range(asked.pods):
        labels = {**asked.labels, **template["metadata"]["labels"], _GROUP: asked.name}
        told = {**template["metadata"]["annotations"], _GROUP_OF: str(asked.pods)}
        metadata = {"name": f"{asked.name}-{number}", "labels": labels, "annotations": told}
        yield _PODS, asked.of("v1", "Pod", template["spec"], **metadata)


def _job_spec(asked: _Asked) -> dict[str, Any]:
    return {
        "parallelism": asked.pods,
        "completions": asked.pods,
        "template": asked.template,
    }


_OBJECTS: Final = dict(
    zip(KINDS, (_job, _indexed, _job_set, _pod_group, _of_cron_job, _pytorch), strict=True)
)


def definitions() -> Iterator[Mapping[str, Any]]:
    """The kinds that Kubernetes does not have, without their schemas."""
    yield _definition("jobset.x-k8s.io", "v1alpha2", "JobSet")
    yield _definition("kubeflow.org", "v1", "PyTorchJob")


def _definition(group: str, version: str, kind: str) -> Mapping[str, Any]:
    plural = f"{kind.lower()}s"
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {
        "name": version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    approved = {"api-approved.kubernetes.io": "unapproved, for a test"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "annotations": approved},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [served]},
    }

"""Notices when pods are ready and when they end."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class PodTaker(Protocol):
    """Takes pods of runs; the reconciler and the executor do."""

    def see_pod(
        self, cluster: str, pod: Mapping[str, Any], *, is_removed: bool = False
    ) -> None: ...


class PodWatcher:
    """Has the Job looked at of which a pod is ready, has ended, or was ended by Kubernetes."""

    def __init__(self, jobs: PodTaker) -> None:
        self._jobs = jobs

    def replace(self, cluster: str, found: Sequence[Mapping[str, Any]]) -> None:
        """Pass on all pods that run under a grant."""
        for pod in found:
            self.changed(cluster, pod)

    def changed(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Pass on a pod that is new, or has changed."""
        self._jobs.see_pod(cluster, found)

    def deleted(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Pass on a pod that was deleted, as it was at last."""
        self._jobs.see_pod(cluster, found, is_removed=True)

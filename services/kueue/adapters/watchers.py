"""Pass on what changes on an API server."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from services.kueue.adapters.reconciler import WorkloadReconciler
from shared.kubernetes.objects import mapping_of

_Objects = dict[str, Mapping[str, Any]]


class WorkloadPodWatcher:
    """Pods that Coplace started."""

    def __init__(self, workloads: WorkloadReconciler) -> None:
        self._workloads = workloads

    def replace(self, cluster: str, found: Sequence[Mapping[str, Any]]) -> None:
        """Pass on all pods."""
        self._workloads.replace_pods(cluster, found)

    def changed(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Pass on a pod that is new, or has changed."""
        self._workloads.see_pod(cluster, found)

    def deleted(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Pass on a pod that was deleted, as it was at last."""
        self._workloads.see_pod(cluster, found, is_removed=True)


class WorkloadRecordWatcher:
    """What Coplace keeps of Workloads."""

    def __init__(self, workloads: WorkloadReconciler) -> None:
        self._workloads = workloads

    def replace(self, cluster: str, found: Sequence[Mapping[str, Any]]) -> None:
        """Pass on all records."""
        self._workloads.replace_records(cluster, found)

    def changed(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Pass on a record that is new, or has changed."""
        self._workloads.see_record(cluster, found)

    def deleted(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Pass on a record that was deleted."""
        self._workloads.see_record(cluster, found, is_removed=True)


class NamedWatcher:
    """Objects of which there are few, kept by name: all of them are passed on at each change."""

    def __init__(self, note: Callable[[str, Mapping[str, Mapping[str, Any]]], None]) -> None:
        self._note = note
        self._known: _Objects = {}

    def replace(self, cluster: str, found: Sequence[Mapping[str, Any]]) -> None:
        """Replace what is known by a list of all objects."""
        self._known = {_name(each): each for each in found}
        self._note(cluster, dict(self._known))

    def changed(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Take an object that is new, or has changed."""
        self._known[_name(found)] = found
        self._note(cluster, dict(self._known))

    def deleted(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Forget an object that was deleted."""
        self._known.pop(_name(found), None)
        self._note(cluster, dict(self._known))


def _name(found: Mapping[str, Any]) -> str:
    return str(mapping_of(found.get("metadata")).get("name"))

"""Notices records that change."""

from collections.abc import Mapping, Sequence
from typing import Any

from services.kubernetes.adapters.reconciler import JobReconciler


class RecordWatcher:
    """Has the Job looked at whose record was changed: by this process, or by its successor."""

    def __init__(self, jobs: JobReconciler) -> None:
        self._jobs = jobs

    def replace(self, cluster: str, found: Sequence[Mapping[str, Any]]) -> None:
        """Pass on all records."""
        self._jobs.replace_records(cluster, found)

    def changed(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Pass on a record that is new, or has changed."""
        self._jobs.changed_record(cluster, found)

    def deleted(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Pass on a record that was deleted."""
        self._jobs.deleted_record(cluster, found)

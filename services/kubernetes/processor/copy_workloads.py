"""Workloads of copies that run when the Kueue of their cluster says so."""

from services.kubernetes.model.jobs import JobKey, KubernetesJob
from shared.kubernetes.objects import is_older
from shared.kueue.workloads import KueueWorkload


def copy_key(workload: KueueWorkload) -> JobKey:
    """Return the name of the copy that a Workload is of."""
    return JobKey(workload.server, workload.key.namespace, workload.owner.get("name", ""))


class CopyWorkloads:
    """The Workloads of copies, by the names of these, as they were seen last."""

    def __init__(self) -> None:
        self._found: dict[JobKey, KueueWorkload] = {}

    def put(self, found: KueueWorkload) -> None:
        """Note a Workload that was seen; what was seen of it later stays."""
        key = copy_key(found)
        before = self._found.get(key)
        is_same = before is not None and before.id == found.id
        if before is None or not (
            is_same and is_older(found.resource_version, before.resource_version)
        ):
            self._found[key] = found

    def lose(self, found: KueueWorkload) -> None:
        """Forget a Workload that was deleted."""
        before = self._found.get(copy_key(found))
        if before is not None and before.id == found.id:
            del self._found[copy_key(found)]

    def forget(self, key: JobKey) -> None:
        """Forget the Workload of a copy that is over."""
        self._found.pop(key, None)

    def of(self, run: KubernetesJob | None) -> KueueWorkload | None:
        """Return the Workload of a copy; None where none was seen."""
        found = self._found.get(run.key) if run else None
        return found if run and found and found.owner.get("uid") == run.uid else None

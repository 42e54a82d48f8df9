"""Where an API server has the objects of Kueue."""

from typing import Final
from urllib.parse import quote

from shared.kueue.names import API_VERSION
from shared.kueue.workloads import WorkloadKey

WORKLOADS: Final = f"/apis/{API_VERSION}/workloads"
CHECKS: Final = f"/apis/{API_VERSION}/admissionchecks"
KUEUE_MISSING: Final = "install Kueue 0.14 or newer there: docs/how-to/kueue.md"


def workload_path(key: WorkloadKey) -> str:
    """Return where a Workload is."""
    namespace, name = quote(key.namespace), quote(key.name)
    return f"/apis/{API_VERSION}/namespaces/{namespace}/workloads/{name}"


def check_path(name: str) -> str:
    """Return where an AdmissionCheck is."""
    return f"{CHECKS}/{quote(name)}"

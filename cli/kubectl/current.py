"""The cluster and the namespace where kubectl is, and the Jobs there."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from coplace_client.errors import UnusableError
from services.kubernetes.adapters.api import JobServer
from services.kubernetes.model.jobs import JobKey, KubernetesJob, identified
from services.kubernetes.model.names import QUEUE_NAME
from shared.kubernetes.access import namespace_of
from shared.kubernetes.api import ApiMissingError
from shared.kubernetes.clusters import api_client
from shared.kubernetes.names import JOB_ID

_DEFAULT: Final = "~/.kube/config"
_ID_PARTS: Final = 6


class Current(NamedTuple):
    """Where kubectl is: a kubeconfig, a context of it, and a namespace."""

    kubeconfig: Path
    context: str
    namespace: str


def current(kubeconfig: str, context: str, namespace: str) -> Current:
    """Return where kubectl is, by its flags and else by its kubeconfig. Raises UnusableError."""
    file = Path(kubeconfig or os.environ.get("KUBECONFIG") or _DEFAULT).expanduser()
    name, own = namespace_of(file, context)
    return Current(file, name, namespace or own)


@asynccontextmanager
async def at_server(where: Current, cluster: str = "current") -> AsyncIterator[JobServer]:
    """Give the API server of a context; `cluster` is how Coplace names it."""
    async with api_client(where.context, where.kubeconfig, where.context) as client:
        yield JobServer(cluster, client)


async def job_there(where: Current, name: str) -> KubernetesJob:
    """Return a Job of the namespace. Raises UnusableError where there is none."""
    async with at_server(where) as api:
        try:
            found = await api.get(JobKey("current", where.namespace, name))
        except ApiMissingError as error:
            problem = f"namespace {where.namespace} of {where.context} has no Job {name}"
            raise UnusableError(problem) from error
    return identified("current", found)


async def jobs_there(where: Current) -> list[KubernetesJob]:
    """Return the Jobs of the namespace that are in a queue of Coplace."""
    path = f"/apis/batch/v1/namespaces/{where.namespace}/jobs"
    async with at_server(where) as api:
        found, _ = await api.list(path, QUEUE_NAME)
    return [identified("current", each) for each in found]


def id_of_job(job: KubernetesJob) -> str:
    """Return the id that Coplace has for a Job. Raises UnusableError where it has none yet."""
    if not (found := known_id(job.annotations)):
        _, namespace, name = job.key
        raise UnusableError(
            f"Job {namespace}/{name} is not in a queue of Coplace, or was not taken yet: its label "
            f"{QUEUE_NAME} names the queue"
        )
    return found


def known_id(annotations: Mapping[str, Any]) -> str:
    """Return the id of a Job as its annotation has it; empty where that is missing or invalid."""
    found = str(annotations.get(JOB_ID) or "")
    return found if len(found.split("/")) == _ID_PARTS else ""

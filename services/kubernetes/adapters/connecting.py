"""Ways to the clusters of a file."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from services.kubernetes.adapters.api import JobServer
from services.kubernetes.adapters.assigned import AssignedJobs
from services.kubernetes.settings import JobClusterEntry
from shared.kubernetes.clusters import api_client


@asynccontextmanager
async def connected(
    clusters: Sequence[JobClusterEntry], refused: Callable[[str], object] = str
) -> AsyncIterator[Mapping[str, JobServer]]:
    """Give the API servers of all clusters by their names; of one that has an executor what the
    first cluster shows of it. Raises CannotStartError."""
    async with AsyncExitStack() as opened:
        found: dict[str, JobServer] = {}
        for each in clusters:
            way = clusters[0] if each.executor else each
            opening = api_client(each.name, way.kubeconfig, way.context)
            client = await opened.enter_async_context(opening)
            if each.executor:
                found[each.name] = AssignedJobs(each.name, client, each.executor, refused)
            else:
                found[each.name] = JobServer(each.name, client, refused)
        yield found

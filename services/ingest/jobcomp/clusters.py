"""The clusters that the Slurm behind the topic is, as they are declared now."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from coplace_client.life import pause
from services.ingest.gate import NotYetKnownError
from shared.authority.following import Followed, following
from shared.process.life import Process
from shared.slurm.clusters import ClusterMap, DeclaredClusters
from shared.streams.on_kafka.deployment import Deployment

_TOPIC: Final = "commands"
_KINDS: Final = ("coplace.v1.ClusterDeclared",)
_AGAIN_S: Final = 0.5


class ClustersFollowed:
    """Follows what is declared of the clusters of a Slurm."""

    def __init__(self, known: DeclaredClusters, followed: Followed) -> None:
        self._known, self._followed = known, followed

    async def now(self) -> ClusterMap:
        """Return where nodes and partitions are now. Raises NotYetKnownError where the topic cannot
        be read up to now."""
        try:
            await self._followed.caught_up()
        except TimeoutError:
            raise NotYetKnownError("what is declared of the clusters is behind") from None
        return self._known.clusters

    async def declared(self, process: Process) -> None:
        """Return when each was declared, or the process shall stop."""
        while (missing := self._known.missing) and not process.stop.is_set():
            process.readiness.wait_for(f"a declaration of {', '.join(missing)}")
            await pause(process.stop, _AGAIN_S)


@asynccontextmanager
async def clusters_followed(
    process: Process,
    deployment: Deployment,
    names: Sequence[str],
    crash: Callable[[Exception], object],
) -> AsyncIterator[ClustersFollowed | None]:
    """Follow the clusters of these names, from when each was declared on; None where a Slurm is
    one cluster of its own name."""
    if not names:
        yield None
        return
    known = DeclaredClusters(names)
    followed = Followed(deployment, [_TOPIC], _KINDS, known.fold, {})
    async with following(followed, crash):
        found = ClustersFollowed(known, followed)
        await found.declared(process)
        yield found

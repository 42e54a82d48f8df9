"""Whose jobs and clusters are, read from Kafka from when it is first needed."""

from collections.abc import Callable, Sequence
from typing import Final

from coplace.v1.control_pb2 import ClusterDeclared

from services.watch.settings import WatchSettings
from services.watch.users import FOLDED, TOPIC, JobUsers
from shared.authority.binding import SitedCluster
from shared.authority.following import Followed, FollowedWhenNeeded
from shared.catalogue.event import Event
from shared.process.clock import now_us
from shared.streams.on_kafka.deployment import Deployment

COMMANDS: Final = "commands"
_DECLARED: Final = "coplace.v1.ClusterDeclared"
_DAY_US: Final = 86_400_000_000


class Sites(FollowedWhenNeeded):
    """The site that each cluster was declared of, for who asks under a table of authority."""

    def __init__(self, deployment: Deployment, crash: Callable[[Exception], object]) -> None:
        super().__init__(
            lambda: Followed(deployment, [COMMANDS], [_DECLARED], self._fold, {}), crash
        )
        self._of: dict[str, str] = {}

    async def clusters(self, names: Sequence[str]) -> tuple[SitedCluster, ...]:
        """Return clusters with their sites, empty where they are not declared. Raises TimeoutError
        where that cannot be read."""
        followed = await self.ready()
        if any(name not in self._of for name in names):
            await followed.caught_up()
        return tuple(SitedCluster(name, self._of.get(name, "")) for name in names)

    def _fold(self, event: Event) -> None:
        if isinstance(event.payload, ClusterDeclared):
            self._of[event.payload.cluster] = event.payload.site


class FollowedUsers(FollowedWhenNeeded):
    """The users of jobs, once somebody watches as one: until then none is read."""

    def __init__(
        self, deployment: Deployment, own: WatchSettings, crash: Callable[[Exception], object]
    ) -> None:
        since_us = now_us() - round(own.remember_days * _DAY_US)
        kept_us = round(own.ended_jobs_kept_s * 1e6)
        super().__init__(
            lambda: Followed(deployment, [TOPIC], FOLDED, self.users.fold, {TOPIC: since_us}), crash
        )
        self.users = JobUsers(kept_us, own.most_jobs, now_us, since_us)
        self._topics = deployment.topics

    async def know(self, job_ids: Sequence[str]) -> None:
        """Return when the users of these jobs are known, as far as they ever will be: a submission
        is committed before anything is decided on it. Raises TimeoutError where jobs' events
        cannot be read."""
        followed = await self.ready()
        unknown = [job_id for job_id in dict.fromkeys(job_ids) if job_id not in self.users]
        if unknown:
            places = {self._topics.partition_of(TOPIC, job_id) for job_id in unknown}
            await followed.caught_up(sorted(places))
            self.users.note_unknown(unknown)

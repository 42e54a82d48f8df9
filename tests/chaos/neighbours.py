"""Jobs that share nodes, and what agents measure of them.

Of the jobs of `events.py` one in twenty may share a node, and hardly two ever do. These come in
some seeds alone (`episode.py`), so that the others play as they did before.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Final

from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.telemetry_pb2 import Shutter, ShuttersMeasured

from tests.chaos.clock import HOUR_US, SECOND_US, some_time_us
from tests.chaos.events import ACCOUNTS, APPS, USERS, publish
from tests.chaos.journal import Run
from tests.chaos.world import World

# Of so many runs that began last pairs are looked for.
_RECENT: Final = 60


def submit_neighbours(world: World) -> None:
    """Some small jobs at once, each of a core or two of a node that it may share."""
    rng, now_us = world.rng, world.clock.now_us
    for number in range(rng.choice([2, 3, 4])):
        if not world.clusters:
            return
        reference = rng.choice(sorted(world.clusters))
        job_id = f"site/{reference}/beside-{world.events}-{number}/{now_us // SECOND_US}"
        submitted = JobSubmitted(
            job_id=job_id,
            attempt=1,
            app_id=rng.choice(APPS),
            user=rng.choice(USERS),
            account=rng.choice(ACCOUNTS),
            nodes=1,
            cores_per_unit=rng.choice([1, 1, 2]),
            walltime_s=rng.uniform(600, 3_600),
            reference_cluster=reference,
            shareable=True,
            submitted_at_us=now_us,
        )
        publish(world, job_id, 1, job_submitted=submitted)


def measure_neighbours(world: World) -> None:
    """What a run's slowdown was beside one that really was there; half of it comes after both have
    ended and were charged."""
    rng, now_us = world.rng, world.clock.now_us
    pairs = _pairs(world, now_us)
    if not pairs:
        return
    run, other = rng.choice(pairs)
    from_us, until_us = _together_us(run, other, now_us)
    began_us = rng.randint(from_us, until_us)
    ipc = rng.uniform(0.5, 2.0)
    measured = ShuttersMeasured(
        job_id=run.job_id,
        attempt=run.attempt,
        co_runner_job_id=other.job_id,
        app_id=APPS[0],
        co_runner_app_id=APPS[1],
        node_model="gold",
        began_at_us=began_us,
        ended_at_us=rng.randint(began_us, until_us),
        shutters=[
            Shutter(ipc_before=ipc, ipc_during=ipc * rng.uniform(1.1, 2.0), ipc_after=ipc)
            for _ in range(rng.randint(1, 4))
        ],
    )
    delay_us = rng.choice([SECOND_US, some_time_us(rng, 60 * SECOND_US, 2 * HOUR_US)])
    publish(world, run.job_id, f"{now_us}-{world.events}", delay_us, shutters_measured=measured)


def _pairs(world: World, now_us: int) -> Sequence[tuple[Run, Run]]:
    """Two runs that were on a node for a while, either way round."""
    found = [
        pair
        for pair in combinations(world.journal.runs[-_RECENT:], 2)
        if pair[0].job_id != pair[1].job_id
        and pair[0].was_beside(pair[1], *_together_us(*pair, now_us))
        and _together_us(*pair, now_us)[0] < _together_us(*pair, now_us)[1]
    ]
    return [*found, *((other, run) for run, other in found)]


def _together_us(one: Run, other: Run, now_us: int) -> tuple[int, int]:
    """From when on and until when both ran; the end lies before the beginning where never."""
    ends_us = [run.ended_us or now_us for run in (one, other)]
    return max(one.began_us, other.began_us), min(ends_us)


NEIGHBOURS: Final[Mapping[Callable[[World], None], float]] = {
    submit_neighbours: 8,
    measure_neighbours: 20,
}

"""Which jobs go back to Slurm, and how: pure."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from services.slurm.model.jobs import GIVEN_BACK, SlurmJob

# As many as a command takes.
_AT_ONCE: Final = 100


class GivenBack(NamedTuple):
    """Jobs that wait, by Slurm's names of them. `wanted` are the nodes that their user asked for
    where Slurm has others, and `sizes` how many at least and at most; None: it has the same."""

    jobs: tuple[str, ...]
    wanted: str | None = None
    sizes: str | None = None

    @property
    def changes(self) -> tuple[str, ...]:
        """Return what `scontrol update` is to change of them: the word says that no grant starts
        them any more."""
        nodes = () if self.wanted is None else (f"ReqNodeList={self.wanted}",)
        sizes = () if self.sizes is None else (f"NumNodes={self.sizes}",)
        return *nodes, *sizes, f"AdminComment={GIVEN_BACK}"


def given_back(jobs: Iterable[SlurmJob]) -> list[GivenBack]:
    """Return the jobs that wait for Coplace, or on the nodes that it decided. What its user holds
    stays held, and what Slurm starts by itself has no word.

    Slurm changes the nodes of one job alone, and those of no array of which tasks have started.
    """
    alike: list[str] = []
    moved: list[GivenBack] = []
    for job in jobs:
        if job.is_pending and not job.is_held_by_user and (job.is_held or job.word.is_started):
            sizes = job.sizes if job.sizes not in ("", job.has_sizes) else None
            if job.released_on == job.wanted and sizes is None:
                alike.append(_name(job))
            else:
                moved.append(GivenBack((_name(job),), job.wanted, sizes))
    starts = range(0, len(alike), _AT_ONCE)
    return [*(GivenBack(tuple(alike[at : at + _AT_ONCE])) for at in starts), *moved]


def _name(job: SlurmJob) -> str:
    """Return the name of what waits alone: that of an array is of its tasks that run too."""
    return f"{job.array_number}_[{job.tasks}]" if job.is_array else job.name_in_slurm

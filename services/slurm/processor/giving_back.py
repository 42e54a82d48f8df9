"""Which jobs go back to Slurm, and how: pure."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from services.slurm.model.jobs import GIVEN_BACK, SlurmJob

# As many as a command takes.
_AT_ONCE: Final = 100


class GivenBack(NamedTuple):
    """Jobs that wait, by Slurm's names of them, and the nodes that their users asked for."""

    jobs: tuple[str, ...]
    wanted: str

    @property
    def changes(self) -> tuple[str, ...]:
        """Return what `scontrol update` is to change of them: the word says that no grant starts
        them any more."""
        return f"ReqNodeList={self.wanted}", f"AdminComment={GIVEN_BACK}"


def given_back(jobs: Iterable[SlurmJob]) -> list[GivenBack]:
    """Return the jobs that wait for Coplace, or on the nodes that it decided. What its user holds
    stays held, and what Slurm starts by itself has no word."""
    by_wanted: dict[str, list[str]] = {}
    for job in jobs:
        if job.is_pending and not job.is_held_by_user and (job.is_held or job.word.is_started):
            by_wanted.setdefault(job.wanted, []).append(job.name_in_slurm)
    return [
        GivenBack(tuple(names[at : at + _AT_ONCE]), wanted)
        for wanted, names in sorted(by_wanted.items())
        for at in range(0, len(names), _AT_ONCE)
    ]

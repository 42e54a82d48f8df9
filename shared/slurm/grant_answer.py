"""The word on a grant that Coplace leaves in a job's AdminComment: Slurm keeps it over crashes of
all processes involved, and in its accounts."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple, Self

_WORD: Final = re.compile(
    r"coplace grant=(\d{1,16}) (started|declined)"
    r"(?: freq_ghz=(\d{1,9}(?:\.\d{1,9})?))?(?: submit=(\d{1,12}))?(?: limit=(\d{1,9}|UNLIMITED))?"
    r"(?: requeue=([01]))?(?: sizes=(\d{1,7}-\d{1,7}))?(?: cpus=(\d{1,7}))?"
    r"(?: wanted=(\S{1,4096}))?(?: parts=(\S{1,65536}))?"
)
_OF_PART: Final = ("limit", "requeue", "sizes", "wanted", "excluded")


class GrantAnswer(NamedTuple):
    """The word that was given on a grant of a job: it was started at a clock, or declined.

    `submit_s` is the submit time of the job that it is about, 0 where it does not say: Slurm gives
    a requeued job another one, and keeps its comments. `limit` (minutes, or UNLIMITED), `requeue`
    (0 or 1), `sizes` (the least and the most nodes, 0 for any), `cpus` (the least of a node) and
    `wanted` (nodes) are what its user asked for, since a start puts others in their place; empty
    where it does not say, or Slurm has them again. Of a heterogeneous job Slurm gives all parts the
    word of the first: `parts` has that of each, and the nodes that are `excluded`.
    """

    grant: int = 0
    is_started: bool = False
    freq_ghz: float = 0.0
    submit_s: int = 0
    limit: str = ""
    requeue: str = ""
    sizes: str = ""
    cpus: str = ""
    wanted: str = ""
    parts: str = ""
    excluded: str = ""

    @property
    def has_terms(self) -> bool:
        """Return whether it has what its user asked for, since Slurm has something else."""
        return self.is_started or bool(self.limit)

    @classmethod
    def parse(cls, admin_comment: str) -> Self:
        """Parse the word in a comment; that of grant 0 where there is none."""
        found = _WORD.search(admin_comment)
        if found is None:
            return cls()
        started, submit_s = found[2] == "started", int(found[4] or 0)
        before = (each or "" for each in found.groups()[4:])
        return cls(int(found[1]), started, float(found[3] or 0), submit_s, *before)

    def of_part(self, number: int) -> "GrantAnswer":
        """Return the word with what was asked for that part, where it says it."""
        rows = self.parts.split(";")
        row = rows[number].split("|") if number < len(rows) else []
        if len(row) != len(_OF_PART):
            return self
        limit, requeue, sizes, wanted, excluded = row
        return self._replace(
            limit=limit, requeue=requeue, sizes=sizes, wanted=wanted, excluded=excluded
        )

    def with_parts(self, before: Iterable["GrantAnswer"]) -> "GrantAnswer":
        """Return the word on all parts of which each says what was asked for it."""
        rows = ("|".join(getattr(each, name) for name in _OF_PART) for each in before)
        return self._replace(parts=";".join(rows))

    def about(self, submit_s: int) -> "GrantAnswer":
        """Return the word where it is about the job that was submitted then; that of grant 0 where
        it was written before that was requeued."""
        is_about_it = self.submit_s in (0, submit_s)
        if not is_about_it:
            return GrantAnswer()
        return GrantAnswer(*self[:3])

    def __str__(self) -> str:
        said = f"started freq_ghz={self.freq_ghz:g}" if self.is_started else "declined"
        submit = f" submit={self.submit_s}" if self.submit_s else ""
        names = ("limit", "requeue", "sizes", "cpus", "wanted", "parts")
        before = {name: getattr(self, name) for name in names}
        behind = "".join(f" {name}={value}" for name, value in before.items() if value)
        return f"coplace grant={self.grant} {said}{submit}{behind}"

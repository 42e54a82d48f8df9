"""How much longer a job takes whose dynamic power is reduced.

Borghesi and others, "Scheduling-based power capping in high performance computing systems" (2018),
section 5.1.1 and equation 4. Dynamic power alone counts: what a node draws idle no limit takes
away. Printed is D' = F M_D D with M_D = 1 / M_P, which shortens jobs below F = 1; meant, and used
here, is that the factor F scales the increase.
"""

from random import Random
from typing import Final, NamedTuple


class _Applications(NamedTuple):
    """A sort of applications: which share of jobs it is, and factors that are as likely."""

    share: float
    least: float
    most: float


# The distributions of the paper are unpublished. These, CPU-bound, mixed and memory-bound, are
# "slightly skewed toward CPU usage": their mean is 0.57, where the paper sees its own, 0.5 to 0.6.
_SORTS: Final = (
    _Applications(0.40, 0.75, 1.00),
    _Applications(0.35, 0.40, 0.70),
    _Applications(0.25, 0.00, 0.25),
)


def duration_ratio(power_ratio: float, factor: float) -> float:
    """Return D' / D = 1 + F (1 / M_P - 1) of a job that gets `power_ratio` M_P of its power, 0 <
    M_P <= 1.

    A `factor` F of 0 is a job that is not slowed, 1 one that takes longer as much as it gets less.
    """
    return 1 + factor * (1 / power_ratio - 1)


def factor_of_cpi(cpi: float) -> float:
    """Return F of a job by its clocks per instruction: equation 4, D' / D = 1 - 1/CPI + 1/(CPI
    M_P), has F = 1 / CPI. Below 1 several instructions run at once: they count as one, CPI 1."""
    return 1 / max(1.0, cpi)


def mixed_factor(job_id: str) -> float:
    """Return F of a job of an application nobody knows, drawn by its id: the same whenever it is
    asked."""
    draw = Random(job_id)
    place = draw.random()
    for sort in _SORTS:
        place -= sort.share
        if place < 0:
            break
    return draw.uniform(sort.least, sort.most)

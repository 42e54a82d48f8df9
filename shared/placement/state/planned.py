"""What a plan says of jobs, as rows of the state."""

from collections.abc import Mapping
from math import inf
from typing import Final, NamedTuple

from shared.placement.state.candidate import Candidate
from shared.streams.state.rows import RowCodec


class PlannedMode(NamedTuple):
    """How a job would run on a cluster: its place among the items of its tier, and from when on."""

    place: int
    tier: int
    not_before_s: float
    candidate: Candidate


class PlannedJob(NamedTuple):
    """What the plan says of one attempt of a job, by cluster."""

    attempt: int
    modes: Mapping[str, PlannedMode]


# The version before had candidates that did not say of what power is unknown.
PLANNED: Final = RowCodec(PlannedJob, version=2, previous=RowCodec(PlannedJob).decode)


class PlanInForce(NamedTuple):
    """The plan that counts: of which round, until when. What came later replaces it."""

    round: int = -1
    based_at_us: int = -1
    valid_until_s: float = -inf

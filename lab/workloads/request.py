"""What a workload is made of: the requests that users submit."""

from dataclasses import dataclass
from typing import NamedTuple

from coplace_client.checks import (
    require_count,
    require_not_negative,
    require_positive,
    require_text,
)
from coplace_client.errors import RejectedError
from coplace_client.millicores import millicores, require_rounded
from lab.workloads.table1 import APPS
from shared.domain.job import Condition
from shared.domain.parts import JobPart
from shared.domain.resources import Resources, require_licences, require_resources


class RequestedDependency(NamedTuple):
    """What must happen to the request with the index `of` first, so long before."""

    of: int
    condition: Condition
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class JobRequest:
    """One job as its user submits it. Raises RejectedError on construction.

    Alone on `reference_cluster` at the nominal P-state the job runs `repetitions` times the
    Table 1 time of what it is; `walltime_s` is what the user asks for there. `app_id` is what the
    user says it is, `runs` what it is where that is something else. It consists of `nodes` equal
    units: whole nodes (halves, where it is shareable) or `cores_per_unit` cores each, or so many
    `millicores_per_unit` where these are no whole cores. They are in one of `partitions`, on nodes
    with `features`, or in a `reservation`, and it holds `licences` while it runs. It starts not
    before `begin_s`, and ends by `deadline_s` or is cancelled then; 0 without.
    An `array` is so many such jobs, of which `array_at_most` have nodes at once (0: any number). A
    gang has its nodes in `parts`. Somebody waits for one that `is_interactive`, for
    `starts_within_s` at most (0: however long).
    """

    index: int
    app_id: str
    user: str
    account: str
    nodes: int
    shareable: bool
    repetitions: float
    walltime_s: float
    submit_s: float
    reference_cluster: str
    runs: str = ""
    cores_per_unit: int = 0
    memory_gib_per_unit: float = 0.0
    resources_per_unit: Resources = ()
    units_per_node: int = 0
    begin_s: float = 0.0
    deadline_s: float = 0.0
    depends_on: tuple[RequestedDependency, ...] = ()
    depends_on_any: bool = False
    job_name: str = ""
    sequence: str = ""
    partitions: tuple[str, ...] = ()
    features: str = ""
    reservation: str = ""
    licences: Resources = ()
    array: str = ""
    array_at_most: int = 0
    parts: tuple[JobPart, ...] = ()
    is_interactive: bool = False
    starts_within_s: float = 0.0
    millicores_per_unit: int = 0

    def __post_init__(self) -> None:
        for field, app_id in (("app_id", self.app_id), ("runs", self.true_app_id)):
            if app_id not in APPS:
                raise RejectedError(field, f"must be one of {', '.join(APPS)}, got {app_id!r}")
        for field in ("user", "account", "reference_cluster"):
            require_text(field, getattr(self, field))
        require_count("nodes", self.nodes)
        for field in ("repetitions", "walltime_s"):
            require_positive(field, getattr(self, field))
        for field in (
            *("index", "submit_s", "cores_per_unit", "memory_gib_per_unit", "units_per_node"),
            *("begin_s", "deadline_s", "array_at_most", "starts_within_s"),
        ):
            require_not_negative(field, getattr(self, field))
        require_rounded("cores_per_unit", self.cores_per_unit, self.millicores_per_unit)
        require_resources("resources_per_unit", self.resources_per_unit)
        require_licences("licences", self.licences)

    @property
    def unit_millicores(self) -> int:
        """Return the thousandths of a core of each unit; 0 where it asks for no cores."""
        return millicores(self.cores_per_unit, self.millicores_per_unit)

    @property
    def true_app_id(self) -> str:
        """Return the application that really runs, whatever the job says."""
        return self.runs or self.app_id

"""Checks of a whole message, beyond its fields one by one."""

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any, Final

from coplace.v1.accounts_pb2 import AllocationDeclared, PeriodClosed
from coplace.v1.control_pb2 import (
    LICENCE_SCOPE_REGION,
    POWER_SCOPE_REGION,
    LicencesDeclared,
    ModelPinned,
    ModelRolledBack,
    NodesDrained,
    NodesResumed,
    PolicyDeclared,
    PowerCapDeclared,
    ReservationDeclared,
)
from coplace.v1.jobs_pb2 import JobFinished, JobRequeued, JobStarted, JobSubmitted
from coplace.v1.plans_pb2 import PlanProposed
from coplace.v1.pricing_pb2 import RepriceAsked
from coplace.v1.tariffs_pb2 import TariffDeclared
from google.protobuf.message import Message

from coplace_client.bounds import CORE_S
from coplace_client.checks import require_text
from coplace_client.errors import RejectedError
from coplace_client.millicores import PER_CORE, require_rounded
from shared.catalogue.payloads.domain_types import millicores_of, run_us
from shared.catalogue.payloads.tariffs import (
    allocated_su,
    require_amounts,
    require_finish,
    require_past,
    tariff_of,
)
from shared.catalogue.policy_declarations import check_declaration
from shared.domain.hostlist import expand
from shared.domain.model_names import PAIR_TREES, TREES

# How long a plan may hold: who sends none any more is forgotten within a day.
_MOST_PLAN_US: Final = 86_400_000_000


def require_ascending(message: Message, names: Iterable[str]) -> None:
    """Raise RejectedError unless times follow one another; those that never happened (0) are left
    out."""
    known = [(name, getattr(message, name)) for name in names if getattr(message, name)]
    for (earlier, early_us), (later, late_us) in pairwise(known):
        if late_us < early_us:
            raise RejectedError(later, f"must not lie before {earlier}")


def _host_lists(message: NodesDrained | NodesResumed | ReservationDeclared) -> None:
    """Lists that can be expanded: of the names only placement knows which there are."""
    for hosts in message.nodes:
        expand(hosts)


def _units_of_nodes(message: JobStarted) -> None:
    """Require as many counts as nodes, where both are given."""
    if not (message.nodes and message.node_units):
        return
    nodes = sum(len(expand(hosts)) for hosts in message.nodes)
    if len(message.node_units) != nodes:
        problem = f"must be one of each of {nodes} nodes, got {len(message.node_units)}"
        raise RejectedError("node_units", problem)


def _failed_somewhere(message: JobRequeued) -> None:
    """Names of nodes mean something on a cluster only."""
    if message.failed_nodes and not message.cluster:
        raise RejectedError("cluster", "must be named where nodes failed")


def _cores_of_nodes(message: JobFinished) -> None:
    """Require no more cores than its nodes gave it."""
    most = message.nodes * message.cores_per_node
    if message.cores > most:
        problem = f"must be at most {most} (nodes x cores_per_node), got {message.cores}"
        raise RejectedError("cores", problem)
    require_rounded("cores", message.cores, message.millicores)


def _cores_of_units(message: JobSubmitted) -> None:
    """Require whole cores that are their thousandths, rounded up."""
    require_rounded("cores_per_unit", message.cores_per_unit, message.millicores_per_unit)
    for part in message.parts:
        require_rounded("parts", part.cores_per_unit, part.millicores_per_unit)


def _whole_run(message: JobFinished) -> None:
    """Intervals follow one another from the start to the end."""
    if not message.intervals:
        return
    begins_us = [interval.began_at_us for interval in message.intervals]
    if begins_us[0] != message.started_at_us:
        problem = f"must begin with the run, at {message.started_at_us}, got {begins_us[0]}"
        raise RejectedError("intervals[0].began_at_us", problem)
    for number, (before_us, us) in enumerate(pairwise([*begins_us, message.ended_at_us]), 1):
        if us < before_us:
            problem = "must not lie before the one before it, nor behind the end"
            raise RejectedError(f"intervals[{number - 1}].began_at_us", problem)


def _core_time(message: JobFinished) -> None:
    """Check what a price multiplies."""
    core_s = millicores_of(message) / PER_CORE * run_us(message) / 1e6
    CORE_S.require("ended_at_us", core_s)


def _cap(message: PowerCapDeclared) -> None:
    """Check whose cap it is, and that its steps are of now or the future."""
    if message.scope != POWER_SCOPE_REGION:
        require_text("name", message.name)
    elif message.name:
        raise RejectedError("name", f"must be empty for the region, got {message.name!r}")
    for number, (step, following) in enumerate(pairwise(message.steps), 1):
        if following.from_us <= step.from_us:
            problem = "must be later than that of the step before: periods must not overlap"
            raise RejectedError(f"steps[{number}].from_us", problem)
    capped = [step.HasField("watts") for step in message.steps]
    is_over = not capped[-1] and message.steps[-1].from_us <= message.declared_at_us
    if is_over and any(capped):
        raise RejectedError(
            "steps", "lie in the past, so no cap would apply: end with a step that is still to come"
        )


def _licences(message: LicencesDeclared) -> None:
    """Check that a cluster or a site is named, and none for the region."""
    if message.scope != LICENCE_SCOPE_REGION:
        require_text("place", message.place)
    elif message.place:
        raise RejectedError("place", f"must be empty for the region, got {message.place!r}")


def _reservation(message: ReservationDeclared) -> None:
    """Check that a reservation lasts, and that its nodes are named in one way."""
    if message.until_us <= message.from_us:
        raise RejectedError("until_us", "must lie behind from_us")
    if message.until_us <= message.declared_at_us:
        raise RejectedError("until_us", "lies in the past: it would keep nothing")
    if message.nodes and message.node_count:
        raise RejectedError("node_count", "goes without nodes: they are as many as are named")
    if message.nodes and message.partition:
        raise RejectedError("partition", "goes without nodes: they are named")


def _plan(message: PlanProposed) -> None:
    """Check until when a plan holds."""
    held_us = message.valid_until_us - message.based_at_us
    if not 0 < held_us <= _MOST_PLAN_US:
        problem = f"must lie up to a day behind based_at_us, got {held_us} us"
        raise RejectedError("valid_until_us", problem)


def _known_model(message: ModelPinned | ModelRolledBack) -> None:
    known = (TREES, PAIR_TREES)
    if message.model not in known:
        problem = f"must be one of {', '.join(known)}, got {message.model[:40]!r}"
        raise RejectedError("model", problem)


_CHECKS: Final[Mapping[type[Message], tuple[Callable[[Any], object], ...]]] = {
    TariffDeclared: (tariff_of, require_amounts),
    AllocationDeclared: (allocated_su, require_amounts),
    PeriodClosed: (require_past,),
    RepriceAsked: (require_finish,),
    NodesDrained: (_host_lists,),
    NodesResumed: (_host_lists,),
    JobSubmitted: (_cores_of_units,),
    JobStarted: (_units_of_nodes,),
    JobFinished: (_cores_of_nodes, _whole_run, _core_time),
    JobRequeued: (_failed_somewhere,),
    PowerCapDeclared: (_cap,),
    LicencesDeclared: (_licences,),
    ReservationDeclared: (_host_lists, _reservation),
    PolicyDeclared: (check_declaration,),
    PlanProposed: (_plan,),
    ModelPinned: (_known_model,),
    ModelRolledBack: (_known_model,),
}
WHOLE: Final = {kind.DESCRIPTOR.full_name: checks for kind, checks in _CHECKS.items()}

"""What the emulated operators reserve and maintain, and what their resource managers refuse for
it."""

from collections.abc import Sequence
from typing import Final

from coplace.v1.control_pb2 import ReservationDeclared
from coplace.v1.placement_pb2 import PlacementDecided

from lab.emulator.facts import EPOCH_US
from lab.emulator.machine import Machine
from lab.emulator.operators import declaration
from lab.workloads.request import JobRequest
from lab.workloads.reserved import COURSE, nodes_of_course
from shared.catalogue.event import Publish
from shared.domain.cluster import Cluster
from shared.domain.folding import fold
from shared.domain.job import named_nodes

_HOUR_US: Final = 3_600_000_000
# The course lasts as long as any run does; the last quarter of the nodes is maintained meanwhile.
_COURSE_HOURS: Final = (1, 24 * 365)
_MAINTENANCE: Final = "maintenance"
_MAINTENANCE_HOURS: Final = (4, 6)
_MAINTAINED: Final = 4


def built_in_reservations(
    clusters: Sequence[Cluster], requests: Sequence[JobRequest]
) -> list[ReservationDeclared]:
    """Return, of each cluster, a reservation of its first nodes for the accounts whose jobs ask for
    it, and a maintenance of the last ones."""
    accounts = sorted({each.account for each in requests if each.reservation})
    found: list[ReservationDeclared] = []
    for cluster in clusters:
        maintained = range(cluster.nodes - max(1, cluster.nodes // _MAINTAINED), cluster.nodes)
        course = _declared(cluster, COURSE, range(nodes_of_course(cluster)), _COURSE_HOURS)
        course.accounts.extend(accounts)
        service = _declared(cluster, _MAINTENANCE, maintained, _MAINTENANCE_HOURS)
        service.reason = "fans are replaced"
        found += [course, service]
    return found


def reservation_event(reservation: ReservationDeclared) -> Publish:
    """Return the event that an operator declared it."""
    subject = f"{reservation.cluster}/{reservation.name}"
    return declaration(reservation, subject, reservation.cluster)


def wrong_reservation(
    decision: PlacementDecided,
    request: JobRequest,
    machine: Machine,
    reservations: Sequence[ReservationDeclared],
    now_us: int,
) -> str | None:
    """Return how a start that takes place now breaks a reservation until its limit; None where it
    breaks none."""
    names, ends_us = machine.node_names, now_us + round(decision.walltime_s * 1e6)
    got = {names[node] for node in decision.node_indices}
    for each in reservations:
        kept = set(named_nodes(tuple(each.nodes)))
        is_own = each.name == request.reservation
        if each.cluster != machine.cluster.name:
            continue
        if is_own and not (got <= kept and each.from_us <= now_us and ends_us <= each.until_us):
            return f"is to run within its reservation {each.name}, got {', '.join(sorted(got))}"
        overlaps = now_us < each.until_us and each.from_us < ends_us
        if not is_own and overlaps and got & kept:
            return f"would run into {each.name} on {', '.join(sorted(got & kept))}"
    return None


def _declared(
    cluster: Cluster, name: str, nodes: Sequence[int], hours: tuple[int, int]
) -> ReservationDeclared:
    begin, end = hours
    names = cluster.names()
    return ReservationDeclared(
        cluster=cluster.name,
        name=name,
        nodes=fold(names.name(node) for node in nodes),
        from_us=EPOCH_US + begin * _HOUR_US,
        until_us=EPOCH_US + end * _HOUR_US,
        declared_at_us=EPOCH_US,
    )

"""What Prometheus sees of placement: jobs, nodes and watts now, and what resource managers owe."""

from collections.abc import Callable, Iterable, Iterator

from coplace.v1.control_pb2 import PowerScope
from coplace.v1.placement_service_pb2 import PowerStanding
from opentelemetry.metrics import CallbackOptions, Meter, Observation

from services.placement.service import Duty
from shared.placement.explain.queries import Queries
from shared.placement.state.caps import Covered

Figures = Callable[[Queries], Iterable[Observation]]


def watch(meter: Meter, duty: Duty) -> None:
    """Measure what the processor that decides here knows; a standby knows of nothing."""

    def observing(figures: Figures) -> Callable[[CallbackOptions], Iterable[Observation]]:
        return lambda _options: figures(duty.queries) if duty.queries else ()

    gauges: tuple[tuple[str, str, str, Figures], ...] = (
        ("jobs_waiting", "", "Jobs that may be started, and are not", _waiting),
        ("jobs_running", "", "Jobs with nodes of a cluster", _running),
        ("nodes_free", "", "Nodes without any job", _free),
        ("power_committed", "W", "What jobs draw beyond idle nodes, as predicted", _committed),
        ("power_idle", "W", "What nodes draw that idle", _idle),
        ("power_cap", "W", "What may be drawn now, where it is capped", _cap),
        ("meters_silent", "", "Nodes whose meters are silent: nameplate power counts", _silent),
        ("manager_silent", "", "1 where the resource manager is silent", _silent_managers),
        ("power_measured", "W", "What is drawn where it is capped, as meters show", _measured),
        ("power_above_cap", "W", "What meters show beyond a cap", _above),
        (
            "promises",
            "",
            "Jobs that were measured beside neighbours, by result",
            _guarantees,
        ),
        (
            "pairs_apart",
            "",
            "Pairs of applications that exceeded a promised slowdown",
            _pairs_apart,
        ),
        ("grants_unanswered", "", "Starts that were withdrawn, without an answer", _unanswered),
    )
    for name, unit, description, figures in gauges:
        meter.create_observable_gauge(name, [observing(figures)], unit, description)
    meter.create_observable_counter(
        "power_above_cap_seconds",
        [observing(_above_s)],
        description="For how long meters showed more than a cap, s",
    )
    meter.create_observable_counter(
        "shareable_starts",
        [observing(_told_by)],
        description="Starts of jobs that accept neighbours, by what chose these",
    )
    meter.create_observable_counter(
        "starts_declined",
        [observing(_declined)],
        description="Starts that resource managers declined, by what they refused",
    )
    meter.create_observable_counter(
        "late_starts",
        [observing(lambda queries: [Observation(queries.late_starts())])],
        description="Starts under withdrawn grants, or of jobs that others hold: these are to end",
    )


def _waiting(queries: Queries) -> Iterator[Observation]:
    yield Observation(queries.waiting())


def _running(queries: Queries) -> Iterator[Observation]:
    for cluster, held in queries.occupancy().items():
        yield Observation(len(held.held), {"cluster": cluster})


def _free(queries: Queries) -> Iterator[Observation]:
    for cluster, held in queries.occupancy().items():
        yield Observation(held.free, {"cluster": cluster})


def _committed(queries: Queries) -> Iterator[Observation]:
    for standing in queries.power().standings:
        yield Observation(standing.committed_w, _subject(standing))


def _idle(queries: Queries) -> Iterator[Observation]:
    for standing in queries.power().standings:
        yield Observation(standing.idle_w, _subject(standing))


def _cap(queries: Queries) -> Iterator[Observation]:
    for standing in queries.power().standings:
        if standing.HasField("cap_w"):
            yield Observation(standing.cap_w, _subject(standing))


def _silent_managers(queries: Queries) -> Iterator[Observation]:
    for cluster, is_silent in queries.silent_managers().items():
        yield Observation(int(is_silent), {"cluster": cluster})


def _silent(queries: Queries) -> Iterator[Observation]:
    for cluster, nodes in queries.silent_meters().items():
        yield Observation(nodes, {"cluster": cluster})


def _measured(queries: Queries) -> Iterator[Observation]:
    for covered, under in queries.overshoots().items():
        if under.last.stands_at(queries.as_of_us):
            yield Observation(under.last.measured_mw / 1000, _of(covered))


def _above(queries: Queries) -> Iterator[Observation]:
    for covered, under in queries.overshoots().items():
        if under.last.stands_at(queries.as_of_us):
            yield Observation(under.last.above_mw / 1000, _of(covered))


def _above_s(queries: Queries) -> Iterator[Observation]:
    for covered, under in queries.overshoots().items():
        yield Observation(under.above_us / 1e6, _of(covered))


def _guarantees(queries: Queries) -> Iterator[Observation]:
    yield Observation(queries.guarantees.kept, {"outcome": "kept"})
    yield Observation(queries.guarantees.broken, {"outcome": "broken"})


def _told_by(queries: Queries) -> Iterator[Observation]:
    for what, starts in list(queries.guarantees.told_by.items()):
        yield Observation(starts, {"by": what})


def _pairs_apart(queries: Queries) -> Iterator[Observation]:
    yield Observation(queries.guarantees.pairs_apart)


def _unanswered(queries: Queries) -> Iterator[Observation]:
    yield Observation(queries.unanswered())


def _declined(queries: Queries) -> Iterator[Observation]:
    counted = {(cluster, "unknown", ""): 0 for cluster in queries.occupancy()}
    for (cluster, kind, name), starts in (counted | queries.declines()).items():
        yield Observation(starts, {"cluster": cluster, "kind": kind, "name": name})


def _subject(standing: PowerStanding) -> dict[str, str]:
    """Of a cluster, a site or the region."""
    scope = PowerScope.Name(standing.scope).removeprefix("POWER_SCOPE_").lower()
    return {"scope": scope, "name": standing.name}


def _of(covered: Covered) -> dict[str, str]:
    return {"scope": str(covered.scope), "name": covered.name}

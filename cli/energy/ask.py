"""`coplace energy ask`: projections as the running system would make them."""

from collections.abc import Iterable, Iterator, Sequence
from math import hypot
from typing import Final

from coplace.v1.energy_service_pb2 import Projection, ProjectionSubject, ProjectRequest
from coplace.v1.energy_service_pb2_grpc import EnergyServiceStub
from rich.box import MARKDOWN
from rich.table import Table

from cli.asking import asking
from cli.notes import with_deviation
from coplace_client.errors import UnusableError

_WITHIN_S: Final = 10.0
_TEXTS: Final = ("app", "node model", "GHz")
_FIGURES: Final = ("time s", "power W", "energy kJ", "from GHz")


def request(
    app_ids: Iterable[str],
    node_models: Iterable[str] = (),
    pstates_ghz: Iterable[float] = (),
    *,
    via_intermediate: bool = False,
) -> ProjectRequest:
    """Return the request for applications; without node models or P-states, on all of them."""
    return ProjectRequest(
        subjects=[ProjectionSubject(app_id=app_id) for app_id in app_ids],
        node_models=node_models,
        pstates_ghz=pstates_ghz,
        via_intermediate=via_intermediate,
    )


def project(address: str, asked: ProjectRequest) -> Sequence[Projection]:
    """Ask the service at `address` for projections. Raises UnansweredError."""
    with asking(address) as channel:
        return EnergyServiceStub(channel).Project(asked, timeout=_WITHIN_S).projections


def require_any(projections: Sequence[Projection]) -> None:
    """Raise UnusableError where nothing is projected, with the reasons."""
    if not any(one.freq_ghz for one in projections):
        raise UnusableError(f"nothing is projected: {'; '.join(gaps(projections)) or 'no model'}")


def table(projections: Sequence[Projection]) -> Table:
    """Return a table with a row for each point that has a projection."""
    found = Table(*_TEXTS, box=MARKDOWN)
    for name in _FIGURES:
        found.add_column(name, justify="right")
    found.add_column("coefficients")
    for projection in projections:
        for row in _rows(projection):
            found.add_row(*row)
    return found


def gaps(projections: Sequence[Projection]) -> Iterator[str]:
    """Yield one line for each reason why P-states have no projection; it names them unless all are
    meant."""
    for one in projections:
        is_nothing_else = not one.freq_ghz and len(one.gaps) == 1
        for gap in one.gaps:
            clocks = ", ".join(f"{ghz:g}" for ghz in gap.freq_ghz)
            at = "" if is_nothing_else else f" at {clocks} GHz"
            yield f"{one.app_id} on {one.node_model}{at}: {gap.reason}"


def _rows(one: Projection) -> Iterator[Sequence[str]]:
    for index, ghz in enumerate(one.freq_ghz):
        time_sd, power_sd = (sd[index] if sd else 0.0 for sd in (one.time_sd, one.power_sd))
        yield (
            one.app_id,
            one.node_model,
            f"{ghz:g}" + (" (indirect)" if one.is_indirect[index] else ""),
            with_deviation(one.time_s[index], ".2f", time_sd),
            with_deviation(one.power_w[index], ".0f", power_sd),
            with_deviation(one.energy_j[index] / 1000, ".2f", hypot(time_sd, power_sd)),
            f"{one.from_ghz:g}",
            one.coefficients_version,
        )

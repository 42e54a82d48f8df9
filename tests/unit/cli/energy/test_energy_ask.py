"""What `coplace energy ask` prints of an answer."""

from math import nan

from coplace.v1.energy_service_pb2 import Projection, ProjectionGap
from rich.console import Console

from cli.energy import ask as asked

HALF = Projection(
    app_id="hpcg",
    node_model="gold",
    coefficients_version="gold@3",
    from_ghz=3.1,
    freq_ghz=[2.0, 2.4, 3.1],
    time_s=[60.0, 55.0, 50.0],
    power_w=[200.0, 250.0, 300.0],
    energy_j=[12_000.0, 13_750.0, 15_000.0],
    is_indirect=[True, False, False],
    time_sd=[0.03, nan, 0.0],
    power_sd=[0.04, nan, 0.0],
    gaps=[ProjectionGap(reason="never measured", freq_ghz=[1.2, 1.5])],
)
NOTHING = Projection(
    app_id="lu",
    node_model="gold",
    gaps=[ProjectionGap(reason="no signature", freq_ghz=[1.2, 3.1])],
)


def rows(*projections: Projection) -> list[list[str]]:
    """The cells below the header."""
    console = Console(width=200)
    with console.capture() as captured:
        console.print(asked.table(projections))
    lines = [line for line in captured.get().splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_each_point_is_a_row_with_a_deviation_where_one_is_known() -> None:
    assert rows(HALF, NOTHING) == [
        [
            "hpcg",
            "gold",
            "2 (indirect)",
            "60.00 ± 1.80",
            "200 ± 8",
            "12.00 ± 0.60",
            "3.1",
            "gold@3",
        ],
        ["hpcg", "gold", "2.4", "55.00", "250", "13.75", "3.1", "gold@3"],
        ["hpcg", "gold", "3.1", "50.00", "300", "15.00", "3.1", "gold@3"],
    ]


def test_gaps_are_reported_by_reason_with_their_pstates_unless_all_are_meant() -> None:
    assert list(asked.gaps([HALF, NOTHING])) == [
        "hpcg on gold at 1.2, 1.5 GHz: never measured",
        "lu on gold: no signature",
    ]

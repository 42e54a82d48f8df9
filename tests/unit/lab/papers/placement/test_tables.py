"""The tables on schedules of known measures."""

from lab.papers.placement import tables
from lab.papers.placement.logs import LogRun, ScaleRun
from lab.papers.placement.rows import (
    BASE,
    HALF,
    MIN_ENERGY,
    MIN_RUNTIME,
    ROWS,
    WORKLOADS,
    Grid,
    Row,
)
from lab.simulation.metrics import ClusterSummary, Percentiles, Summary
from lab.simulation.policy import SimulatedPolicy

PRIORITY = Row(SimulatedPolicy.PRIORITY_INC)


def summary(scale: float) -> Summary:
    """Every measure that should be small is `scale` of another's."""
    spread = Percentiles(scale * 7200, 0, 0, 0, 0, 0)
    cluster = ClusterSummary("p", 1, 0.5, 1.0, 0.0, scale * 3600, 2.0, 0.5)
    return Summary(
        jobs=10,
        makespan_s=scale * 864_000,
        wait_s=spread,
        widest_wait_s=0.0,
        response_s=spread,
        bounded_slowdown_10s=spread,
        bounded_slowdown_60s=spread,
        utilisation=0.5,
        busy_energy_j=scale * 3.6e11,
        idle_energy_j=0.0,
        sum_runtime_s=scale * 36_000,
        backfilled_share=0.0,
        mean_freq_ghz=2.0,
        best_cluster_share=0.5,
        clusters=(cluster, cluster),
    )


def grid(**scales: float) -> Grid:
    """Two seeds: what a policy saves is the same for both, their results are not."""
    found = {
        (workload, row): [
            summary(size * scales.get(row.policy.replace("-", "_"), 1.0)) for size in (1, 2)
        ]
        for workload in WORKLOADS
        for row in ROWS
    }
    return Grid((1, 2), found)


def cells(table: str, label: str) -> list[str]:
    (line,) = [line for line in table.splitlines() if line.startswith(f"| {label} |")]
    return [cell.strip() for cell in line.strip("|").split("|")[1:]]


def test_gains_are_percent_of_the_baseline_and_the_baselines_have_no_line() -> None:
    table = tables.gains(grid(priority_inc=0.75, min_energy=1.5))
    saved = cells(table, f"{HALF}, {PRIORITY.label}")
    assert saved == ["25.0 ± 0.0"] * 4 + ["50.0 ± 0.0"] * 4
    assert MIN_RUNTIME.policy not in table.splitlines()[-1]


def test_means_show_every_row_with_its_interval() -> None:
    table = tables.means(grid(base=2.0))
    assert len(table.splitlines()) == 2 + len(WORKLOADS) * len(ROWS)
    assert cells(table, f"{HALF}, {BASE.label}")[0] == "30.00 ± 127.06"
    assert cells(table, f"{HALF}, {MIN_ENERGY.label}")[5] == "50.0 ± 0.0"


def test_claims_are_beside_the_paper_under_both_disciplines_and_both_meanings_of_min_runtime() -> (
    None
):
    table = tables.claims(grid(priority_inc=0.75, easy=1.5), grid(priority_inc=0.5))
    figure = cells(table, "over Min_runtime, energy, at most")
    ours = ["25.0 ± 0.0", "25.0 ± 0.0", "50.0 ± 0.0", "50.0 ± 0.0", "50.0 ± 0.0", "50.0 ± 0.0"]
    assert figure == ["5.2", "20", *ours]


def test_a_figure_of_one_cell_has_no_best_of_each_seed() -> None:
    table = tables.claims(grid(priority_inc=0.75), grid())
    assert cells(table, "over Min_runtime, energy, 13 %, w=1")[2:4] == ["25.0 ± 0.0", ""]


def test_the_seeds_and_the_rows_that_the_workload_was_fitted_to_are_marked() -> None:
    table = tables.claims(grid(), grid())
    assert table.startswith("| figure (seeds 1 to 2) |")
    fitted = [line for line in table.splitlines() if "(fitted)" in line]
    assert [line.split(" | ")[0].strip("| ") for line in fitted] == [
        "Min_runtime over Base, makespan, 13 % (fitted)",
        "Min_runtime over Base, response, 13 % (fitted)",
        "Base over Min_runtime, response, 50 % (fitted)",
    ]


def test_waits_of_logs_have_their_tail() -> None:
    run = LogRun("A", SimulatedPolicy.EASY, 9, 1, 60.0, (3600, 7200, 9000, 1800), 2, 1, 3, 9, 64)
    row = ["9", "1", "60.0", "1.00", "2.00", "2.50", "0.50", "2.00", "1.00"]
    assert cells(tables.logs([run]), "A, easy") == row
    assert cells(tables.log_speed([run]), "A, easy") == ["3", "1", "64"]


def test_the_cost_of_a_job_is_shown_over_that_of_the_smallest_log() -> None:
    table = tables.scale([ScaleRun(1000, 0.01), ScaleRun(4000, 0.08)])
    assert cells(table, "4,000") == ["0.08", "20.00", "2.00"]

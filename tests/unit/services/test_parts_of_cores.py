"""Whole regions in which jobs ask for thousandths of cores, held to exact sums of fractions."""

from collections import Counter
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from coplace.v1.control_pb2 import LIMIT_SUBJECT_USER, ClusterDeclared, LimitsDeclared
from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coplace_client.millicores import beside_cores, whole_cores
from coplace_testing.manager import ObedientManager
from coplace_testing.region import Region
from shared.pricing.charge import audit
from shared.scheduling.node_states import MOST_JOBS

ROUND_S = 10.0


class Asked(NamedTuple):
    """A job: so many units of so many thousandths of a core, `most` of them on a node (0: any)."""

    units: int
    millicores: int
    most: int
    walltime_s: int

    def fit(self, free: int) -> int:
        """How many units fit where so much is free."""
        units = free // self.millicores
        return min(units, self.most) if self.most else units


def asked(cores: int) -> st.SearchStrategy[Asked]:
    some = st.sampled_from([1, 10, 100, 125, 250, 333, 500, 999, 1000, 1500])
    return st.builds(
        Asked,
        units=st.integers(1, 9),
        millicores=(some | st.integers(1, 1000 * cores)).filter(lambda m: m <= 1000 * cores),
        most=st.sampled_from([0, 0, 1, 3]),
        walltime_s=st.sampled_from([20, 30, 70]),
    )


@st.composite
def queues(draw: st.DrawFn) -> tuple[int, int, list[Asked]]:
    nodes, cores = draw(st.integers(1, 3)), draw(st.integers(2, 4))
    return nodes, cores, draw(st.lists(asked(cores), min_size=1, max_size=9))


def declared(nodes: int, cores: int) -> ClusterDeclared:
    return ClusterDeclared(
        cluster="alpha",
        site="north",
        node_model="small",
        nodes=nodes,
        cores_per_node=cores,
        pstates_ghz=[2.0],
        idle_power_w=100,
        peak_bandwidth_gbps=100,
        shares_unpredicted=True,
    )


def submission(number: int, job: Asked, now_us: int) -> JobSubmitted:
    return JobSubmitted(
        job_id=f"job-{number}",
        attempt=1,
        user="ada",
        account="hpc",
        nodes=job.units,
        walltime_s=job.walltime_s,
        reference_cluster="alpha",
        submitted_at_us=now_us,
        sequence=str(number),
        shareable=True,
        cores_per_unit=whole_cores(job.millicores),
        millicores_per_unit=beside_cores(job.millicores),
        units_per_node=job.most,
    )


def held(starts: dict[str, PlacementDecided], jobs: list[Asked], now_us: int) -> Counter[int]:
    """Thousandths of a core that are given out on each node."""
    found: Counter[int] = Counter()
    for number, job in enumerate(jobs):
        start = starts.get(f"job-{number}")
        if start is None or start.decided_at_us + job.walltime_s * 1_000_000 <= now_us:
            continue
        units = start.node_units or [1] * len(start.node_indices)
        for node, count in zip(start.node_indices, units, strict=True):
            found[node] += count * job.millicores
    return found


@settings(max_examples=40)
@example((1, 2, [Asked(1, 250, 0, 20)] * 9))
@example((2, 4, [Asked(9, 999, 0, 30), Asked(9, 1, 0, 30), Asked(2, 4000, 1, 20)]))
@given(queues())
def test_nodes_hold_what_they_have_and_what_fits_starts_and_is_charged_exactly(
    drawn: tuple[int, int, list[Asked]],
) -> None:
    nodes, cores, jobs = drawn
    on_a_node = 1000 * cores
    fitting = [n for n, job in enumerate(jobs) if nodes * job.fit(on_a_node) >= job.units]
    region = Region([declared(nodes, cores)], round_s=ROUND_S)
    ObedientManager(region, lambda start: asked_by(start.job_id, jobs).walltime_s)
    region.send(*(submission(number, job, region.now_us) for number, job in enumerate(jobs)))
    starts: dict[str, PlacementDecided] = {}
    for _ in range(100):
        region.advance(ROUND_S)
        decisions = region.decisions()
        starts = {d.job_id: d for d in decisions if d.verdict == VERDICT_START}
        taken = held(starts, jobs, region.now_us)
        assert all(amount <= on_a_node for amount in taken.values())
        waiting = [n for n in fitting if f"job-{n}" not in starts]
        if not waiting:
            break
        # An end is reported behind the round in which it was.
        known = held(starts, jobs, region.now_us - round(ROUND_S * 1e6))
        free = [on_a_node - known[node] for node in range(nodes)]
        first = jobs[waiting[0]]
        assert sum(map(first.fit, free)) < first.units, f"job-{waiting[0]} could start"
    assert starts.keys() == {f"job-{n}" for n in fitting}
    region.advance(200.0)
    assert not region.dead_letters()
    assert {c.job_id: c.price_su for c in region.charges()} == {
        f"job-{n}": price(jobs[n]) for n in fitting
    }
    for charge in region.charges():
        audit(charge)
        of = Fraction(charge.millicores, 1000) or charge.cores
        job = asked_by(charge.job_id, jobs)
        assert of == Fraction(job.units * job.millicores, 1000)


def asked_by(job_id: str, jobs: list[Asked]) -> Asked:
    return jobs[int(job_id.removeprefix("job-"))]


def price(job: Asked) -> str:
    """A service unit a core and hour, rounded once, half to even."""
    exact = Fraction(job.units * job.millicores * job.walltime_s, 1000 * 3600)
    whole, rest = divmod(exact * 10**6, 1)
    micro = whole + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2))
    return f"{Decimal(micro) / 10**6:.6f}"


def test_so_many_small_jobs_share_a_node_and_no_more() -> None:
    """Memory of a node's groups grows with their square."""
    region = Region([declared(1, 2)], round_s=ROUND_S)
    ObedientManager(region)
    job = Asked(1, 1, 0, 1000)
    count = MOST_JOBS + 3
    region.send(*(submission(number, job, region.now_us) for number in range(count)))
    region.advance(3 * ROUND_S)
    assert sum(d.verdict == VERDICT_START for d in region.decisions()) == MOST_JOBS
    region.advance(1500)
    assert len(region.charges()) == count


def test_sixteen_jobs_of_a_quarter_run_within_a_limit_of_four_cores() -> None:
    region = Region([declared(4, 4)], round_s=ROUND_S)
    ObedientManager(region)
    region.send(LimitsDeclared(subject=LIMIT_SUBJECT_USER, name="ada", most_cores=4))
    region.advance(ROUND_S)
    job = Asked(1, 250, 0, 1000)
    region.send(*(submission(number, job, region.now_us) for number in range(17)))
    region.advance(ROUND_S)
    starts = [d.job_id for d in region.decisions() if d.verdict == VERDICT_START]
    assert len(starts) == 16
    [waits] = {f"job-{number}" for number in range(17)} - {*starts}
    words = region.why(waits)
    assert "may hold 4 cores at once, holds 4 and needs 0.25 more" in words

"""What a search over orders is worth."""

from random import Random

from lab.papers.capping.arrivals import Case
from lab.papers.capping.searched import HEADER, Pool, means, row
from lab.workloads.eurora import EuroraJob, EuroraMachine, EuroraUnit
from shared.domain.cluster import NodeClass


def test_a_row_says_by_how_much_the_search_changes_means_and_how_sure_that_is() -> None:
    cells = row(Case(100, 900), 50, [[2.0, 2.2, 1.0, 1.0], [4.0, 4.0, 1.0, 0.9]])
    assert cells[:4] == ["100", "900", "50", "2"]
    assert cells[4:7] == ["3.000", "3.100", "5.0 ± 5.0"]
    assert cells[7:] == ["1.000", "0.950", "-5.0 ± 5.0"]
    assert len(cells) == len(HEADER)


def test_every_schedule_of_a_seed_is_played_and_the_same_again() -> None:
    rng = Random(1)
    unit = EuroraUnit(8, 1.0, ())
    walltimes = [(f"{n}", rng.uniform(60.0, 6_000.0)) for n in range(20)]
    jobs = [EuroraJob(job, "debug", 0.0, 2, unit, s, s / 2, 80) for job, s in walltimes]
    pool = Pool(EuroraMachine(16, (NodeClass(4, 32.0, ()),)), jobs, {"debug": 600.0})
    found = means(pool, (Case(5, 20), 50, 7))
    assert len(found) == 4
    assert all(slowdown >= 1.0 for slowdown in found)
    assert found == means(pool, (Case(5, 20), 50, 7))
    assert found != means(pool, (Case(5, 20), 50, 8))

"""What asking for costs of neighbours takes: python -m lab.benchmarks.neighbour_costs
[applications] [groups] [trees]

Seconds of CPU of a pass over all applications beside groups of one to three jobs: of the first, and
of one after a cluster was lost and returned, which changes nothing that costs follow from. With
`trees` N, N random trees of pairs say it, else weights.
"""

import random
import sys
import time

from coplace.v1.energy_pb2 import SignatureAt, SignatureUpdated

from shared.catalogue.policy_settings import PolicySettings
from shared.models.pair_trees import PairTrees
from shared.placement.evaluate.neighbour_rules import NeighbourRules
from shared.placement.state.model_store import ModelStore
from shared.scheduling.capacity import Group
from shared.streams.state.state import State
from tests.unit.shared.models.test_pair_trees import grown
from tests.unit.shared.placement import region


def knowing(apps: list[str], trees: int, rng: random.Random) -> ModelStore:
    """Return a region with a signature of each application."""
    store = ModelStore(State({}), PolicySettings(most_applications=2 * len(apps)))
    for event in region.models():
        store.fold(event)
    for app in apps:
        at = SignatureAt(
            freq_ghz=2.7, time_s=50, power_w=300, tpi=0.01, count=1,
            cpi=0.5 + rng.random(), mem_gbps=100 * rng.random(),
        )  # fmt: skip
        told = SignatureUpdated(
            app_id=app, node_model=region.MODELS["p1"], tpi_scale="test", at=[at]
        )
        store.fold(region.event(app, told))
    if trees:
        store.pair_trees = PairTrees("pair-trees@1", grown(1, trees))
    return store


def pass_s(store: ModelStore, apps: list[str], groups: list[Group]) -> float:
    """Measure the CPU time of a pass."""
    begin_s = time.process_time()
    rule = NeighbourRules(store)()["p1"]
    for app in apps:
        for group in groups:
            rule.cost((app, 12_000), group)
    return time.process_time() - begin_s


def main(applications: int = 5000, groups: int = 64, trees: int = 0) -> None:
    """Print both."""
    rng = random.Random(1)
    apps = [f"many-{number:05}" for number in range(applications)]
    store = knowing(apps, trees, rng)
    sizes = [rng.randint(1, 3) for _ in range(groups)]
    beside = [
        tuple((rng.choice(apps), rng.choice((6_000, 12_000, 24_000))) for _ in range(n))
        for n in sizes
    ]
    print(f"first {pass_s(store, apps, beside):.2f} s")
    for event in region.lost("p1", region.T0_US + 1), region.returned("p1", region.T0_US + 2):
        store.fold(event)
    print(f"after another publication {pass_s(store, apps, beside):.2f} s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

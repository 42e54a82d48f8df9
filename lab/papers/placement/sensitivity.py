"""What the gains depend on: how fast jobs come, how long large ones are, requests, discipline."""

from typing import Final

from lab.papers.placement.rows import BASE, MIN_ENERGY, MIN_RUNTIME, Row
from lab.papers.placement.trials import Variation
from lab.simulation.policy import SimulatedPolicy

PRIORITY: Final = Row(SimulatedPolicy.PRIORITY_INC)
PLAYED: Final = (BASE, MIN_RUNTIME, MIN_ENERGY, PRIORITY)
VARIATIONS: Final = (
    Variation("arrivals in 16 days", speed=0.5),
    Variation("arrivals in 10 days", speed=0.8),
    Variation("arrivals in 6.4 days", speed=1.25),
    Variation("arrivals in 5.3 days", speed=1.5),
    Variation("large jobs shorter (correlation -0.35), in 9 days", speed=8 / 9, correlation=-0.35),
    Variation("large jobs as long as small ones (correlation 0)", correlation=0.0),
    Variation("requests are the run times", exact_requests=True),
)

"""A cap under which a job lacks watts alone, beside one that could run at a lower P-state.

All that this takes seldom comes together by itself: coefficients and a signature of what runs, a
long limit of it and a short one of what waits, and a cap between what one and two of them draw.
"""

from typing import Final

from coplace.v1.control_pb2 import POWER_SCOPE_REGION, PowerCapDeclared, PowerCapStep
from coplace.v1.energy_pb2 import CoefficientsDeclared
from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.telemetry_pb2 import SignatureMeasured

from tests.chaos.clock import SECOND_US, some_time_us
from tests.chaos.events import ACCOUNTS, MODELS, publish
from tests.chaos.world import World

_APP: Final = "app-0"
_MODEL: Final = "platinum"
_NODE_W: Final = 380.0
_BEYOND_W: Final = 420.0  # idle power
_LONG_S: Final = 43_200.0
_SHORT_S: Final = 90.0
_SOON_US: Final = 1_200 * SECOND_US


def squeeze(world: World) -> None:
    """A long job, a cap of the region that leaves it and half of another one, and then some short
    jobs."""
    there = [name for name in sorted(world.clusters) if world.clusters[name].node_model == _MODEL]
    if not there:
        return
    name = world.rng.choice(there)
    _teach(world)
    _cap(world)
    _submit(world, name, "long", _LONG_S, 0)
    for number in range(6):
        _submit(
            world, name, f"short-{number}", _SHORT_S, some_time_us(world.rng, SECOND_US, _SOON_US)
        )


def _teach(world: World) -> None:
    """How much longer the application takes at each P-state and what it draws there: its power
    falls as its clock."""
    now_us, (_, pstates_ghz) = world.clock.now_us, MODELS[_MODEL]
    if world.declared_us.get(f"coefficients/{_MODEL}") != now_us:
        world.declared_us[f"coefficients/{_MODEL}"] = now_us
        ratios = [to_ghz / from_ghz for from_ghz in pstates_ghz for to_ghz in pstates_ghz]
        none = [0.0 for _ in ratios]
        declared = CoefficientsDeclared(
            node_model=_MODEL,
            tpi_scale="chaos",
            pstates_ghz=pstates_ghz,
            a=ratios,
            b=none,
            c=none,
            d=[1.0 for _ in ratios],
            e=none,
            f=none,
            available=[True for _ in ratios],
            reason="measured in the laboratory",
            declared_at_us=now_us,
        )
        publish(world, _MODEL, now_us, coefficients_declared=declared)
    measured = SignatureMeasured(
        app_id=_APP,
        node_model=_MODEL,
        freq_ghz=pstates_ghz[-1],
        time_s=50.0,
        power_w=_NODE_W,
        cpi=0.4,
        tpi=0.01,
        mem_gbps=20.0,
        tpi_scale="chaos",
    )
    publish(world, f"{_APP}/{_MODEL}", f"squeeze-{world.events}", signature_measured=measured)


def _cap(world: World) -> None:
    now_us = world.clock.now_us
    idle_w = sum(cluster.nodes * cluster.idle_power_w for cluster in world.clusters.values())
    step = PowerCapStep(from_us=now_us, watts=idle_w + _BEYOND_W)
    declared = PowerCapDeclared(
        scope=POWER_SCOPE_REGION,
        steps=[step],
        reason="it is squeezed",
        declared_at_us=now_us,
    )
    publish(world, f"{POWER_SCOPE_REGION}/", now_us, power_cap_declared=declared)


def _submit(world: World, cluster: str, kind: str, walltime_s: float, delay_us: int) -> None:
    at_us = world.clock.now_us
    job_id = f"site/{cluster}/{kind}-{world.events}/{at_us // SECOND_US}"
    submitted = JobSubmitted(
        job_id=job_id,
        attempt=1,
        app_id=_APP,
        user="ada",
        account=world.rng.choice(ACCOUNTS),
        nodes=1,
        walltime_s=walltime_s,
        reference_cluster=cluster,
        submitted_at_us=at_us,
    )
    publish(world, job_id, 1, delay_us, job_submitted=submitted)

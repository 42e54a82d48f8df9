"""Two clusters of two P-states, an application that is best off on each, and jobs."""

import numpy as np

from coplace_client.signature import Signature
from lab.simulation.epm import NodeModels
from lab.simulation.jobs import SubmittedJobs
from lab.simulation.sweep import Setup
from lab.simulation.system import SimulatedCluster, SizeUnit, System
from lab.workloads.rigid import RigidJobs
from shared.domain.coefficients import Coefficients

# At 1 GHz a node draws 0.3 of its power; "cpu" then takes twice as long, "mem" as long as ever.
TIMES_S = {"p1": {"cpu": 100.0, "mem": 120.0}, "p2": {"cpu": 150.0, "mem": 100.0}}
TPI = {"cpu": 0.0, "mem": 10.0}


def coefficients(module: str) -> Coefficients:
    down = np.array([[1.0, 0.0], [0.3, 1.0]])
    identity, zero = np.eye(2), np.zeros((2, 2))
    e = np.array([[0.0, 0.0], [-0.05, 0.0]])
    return Coefficients(
        node_model=module,
        version="1",
        tpi_scale="lab",
        pstates_ghz=(1.0, 2.0),
        a=down,
        b=zero,
        c=zero,
        d=np.array([[1.0, 0.0], [1.0, 1.0]]),
        e=e,
        f=zero,
        available=identity.astype(np.bool_) | (down > 0),
    )


def signature(module: str, app: str) -> Signature:
    return Signature(
        app_id=app,
        node_model=module,
        tpi_scale="lab",
        freq_ghz=2.0,
        time_s=TIMES_S[module][app],
        power_w=300.0,
        cpi=1.0,
        tpi=TPI[app],
        mem_gbps=0.0,
        count=1,
    )


def models(module: str, apps: tuple[str, ...] = ("cpu", "mem")) -> NodeModels:
    return NodeModels(coefficients(module), {app: signature(module, app) for app in apps})


def cluster(name: str, nodes: int = 4, **known: object) -> SimulatedCluster:
    return SimulatedCluster(name=name, nodes=nodes, module=name, **known)


def setup(nodes: int = 4) -> Setup:
    system = System((cluster("p1", nodes), cluster("p2", nodes)))
    return Setup(system, (models("p1"), models("p2")))


def jobs(nodes: list[int], run_s: float = 100.0, counts: SizeUnit = SizeUnit.NODE) -> SubmittedJobs:
    """Jobs of one instant that ask for twice what they need."""
    times = np.full(len(nodes), run_s)
    rigid = RigidJobs(np.zeros(len(nodes)), np.array(nodes), times, 2 * times)
    return SubmittedJobs(rigid, np.arange(1, len(nodes) + 1), counts)

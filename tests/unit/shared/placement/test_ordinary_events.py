"""The smallest sequence of ordinary events that once ended placement for ever: in its second round
one job starts while the reservation of another, whose cluster was lost, is explained."""

from coplace.v1.control_pb2 import ClusterDeclared, ClusterLost
from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided
from google.protobuf.message import Message

from shared.placement.candidates.candidate import Rules
from shared.placement.processor import Placement
from shared.streams.stages.stage import Round
from tests.unit.shared.placement.region import T0_US, decisions, event, feed

_FIRST_END_US = T0_US + 1_000_000_000
_ROUND_US = 400_000_000


def _cluster(
    name: str, model: str, nodes: int, ghz: list[float], gbps: float, memory_gib: float = 0.0
) -> ClusterDeclared:
    return ClusterDeclared(
        cluster=name,
        site="north",
        node_model=model,
        nodes=nodes,
        cores_per_node=36,
        pstates_ghz=ghz,
        idle_power_w=110.0,
        peak_bandwidth_gbps=gbps,
        memory_gib_per_node=memory_gib,
    )


def _job(
    name: str,
    app: str,
    on: str,
    nodes: int,
    hours: int,
    submitted_s: float,
    priority: int = 0,
    memory_gib: float = 0.0,
) -> JobSubmitted:
    return JobSubmitted(
        job_id=f"north/{name}/1",
        attempt=1,
        app_id=app,
        user="ada",
        account="chem",
        nodes=nodes,
        walltime_s=3600.0 * hours,
        reference_cluster=on,
        submitted_at_us=T0_US + round(submitted_s * 1e6),
        priority=priority,
        memory_gib=memory_gib,
    )


_FIRST: tuple[Message, ...] = (
    _cluster("alpha", "m1", 64, [2.4], 140.0, 192.0),
    _cluster("beta", "m2", 64, [1.2, 2.0, 3.1], 281.0),
    _job("alpha/77", "hpcg", "beta", 4, 1, 807.73, -100),
    _cluster("aa", "m3", 4, [2.4], 281.0, 192.0),
)
_SECOND: tuple[Message, ...] = (
    _job("alpha/120", "lu.C", "beta", 2, 24, 0.0, memory_gib=400.0),
    _cluster("zz", "m4", 2, [1.2, 2.0, 3.1], 281.0),
    _job("gamma/335", "ab", "aa", 1, 24, 534.55, -100),
    ClusterLost(cluster="beta", lost_at_us=T0_US + 837_880_000),
    _job("alpha/74", "bt", "zz", 1, 1, 154.69, 100, 1.0),
)


def test_the_sequence_is_decided_and_each_decision_says_why() -> None:
    placement = Placement({}, Rules(), 7.0)
    decided: list[PlacementDecided] = []
    for number, payloads in enumerate((_FIRST, _SECOND)):
        feed(placement, (event(f"{number}-{at}", each) for at, each in enumerate(payloads)))
        ended = Round(number, _FIRST_END_US + number * _ROUND_US)
        decided += decisions(placement.end_round(ended))
    last = {each.job_id: each for each in decided}
    assert len(last) == 4
    assert all(each.verdict == VERDICT_START or each.reason for each in last.values())
    assert last["north/alpha/74/1"].verdict == VERDICT_START

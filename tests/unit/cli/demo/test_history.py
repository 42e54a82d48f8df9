"""What a report knows of a run is read from its topics."""

from collections.abc import Iterable

from coplace.v1.control_pb2 import ClusterDeclared

from cli.demo.history import History
from shared.messaging.events.event import Event


def declared(time_us: int, cluster: str, nodes: int) -> Event:
    message = ClusterDeclared(cluster=cluster, nodes=nodes)
    return Event(f"north/{cluster}/{time_us}", "north", time_us, cluster, message)


def test_a_cluster_that_was_declared_again_is_there_once_as_declared_last() -> None:
    told = [declared(3, "p1", 48), declared(1, "p2", 8), declared(2, "p1", 64)]

    def topic(name: str) -> Iterable[Event]:
        return told if name == "commands" else []

    found = [(each.cluster, each.nodes) for each in History.read(topic).clusters]
    assert found == [("p1", 48), ("p2", 8)]

import socket
from pathlib import Path

from deploy.local.ports import free_ports, kept_ports, remembered_ports


def test_ports_differ_and_can_be_listened_on() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        with socket.create_server(("127.0.0.1", port)):
            pass


def test_ports_lie_outside_the_range_of_outgoing_connections() -> None:
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    assert not [port for port in free_ports(50) if first <= port <= last]


def test_a_port_is_kept_until_another_program_has_it(tmp_path: Path) -> None:
    file = tmp_path / "ports.json"
    first = kept_ports(file, ["kafka", "redis"])
    assert kept_ports(file, ["redis", "kafka", "ingest"]).items() > first.items()
    with socket.create_server(("127.0.0.1", first["kafka"])):
        second = kept_ports(file, ["kafka", "redis"])
    assert second["redis"] == first["redis"]
    assert second["kafka"] != first["kafka"]
    assert remembered_ports(file).items() > second.items()

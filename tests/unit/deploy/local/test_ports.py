import socket
from pathlib import Path

from deploy.local.ports import free_ports


def test_ports_differ_and_can_be_listened_on() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        with socket.create_server(("127.0.0.1", port)):
            pass


def test_ports_lie_outside_the_range_of_outgoing_connections() -> None:
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    assert not [port for port in free_ports(50) if first <= port <= last]

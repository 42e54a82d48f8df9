import json
import socket
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from deploy.local.ports import free_ports, kept_ports, remembered_ports


def test_ports_differ_and_can_be_listened_on_outside_the_range_of_outgoing_connections() -> None:
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        assert not first <= port <= last
        with socket.create_server(("127.0.0.1", port)):
            pass


def test_processes_that_choose_at_once_are_given_different_ports() -> None:
    """A hundred each: by chance alone some would be the same in one of three runs."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        first, second = processes.map(free_ports, [100, 100])
    assert not set(first) & set(second)


def test_a_port_is_given_again_once_its_server_would_have_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deploy.local.ports.gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr("deploy.local.ports._first_ephemeral_port", lambda: 10_040)
    now_s = 1_000.0
    monkeypatch.setattr("deploy.local.ports.time.time", lambda: now_s)
    first = free_ports(15)
    assert not set(free_ports(15)) & set(first)
    now_s += 121.0
    assert len(free_ports(30)) == 30


def test_what_a_killed_process_left_half_written_is_in_nobodys_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deploy.local.ports.gettempdir", lambda: str(tmp_path))
    free_ports(3)
    [file] = tmp_path.iterdir()
    file.write_text(file.read_text()[:-5])
    assert len(free_ports(3)) == 3
    assert len(json.loads(file.read_text())) == 3


def test_a_port_is_kept_until_another_program_has_it(tmp_path: Path) -> None:
    file = tmp_path / "ports.json"
    first = kept_ports(file, ["kafka", "redis"])
    assert kept_ports(file, ["redis", "kafka", "ingest"]).items() > first.items()
    with socket.create_server(("127.0.0.1", first["kafka"])):
        second = kept_ports(file, ["kafka", "redis"])
    assert second["redis"] == first["redis"]
    assert second["kafka"] != first["kafka"]
    assert remembered_ports(file).items() > second.items()

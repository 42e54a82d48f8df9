"""The runner with real processes: what it starts, restarts, stops and never leaves behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from redis import Redis
from typer.testing import CliRunner

from deploy.local.cli import app
from deploy.local.errors import LocalServersError, NotReadyError
from deploy.local.ports import free_ports
from deploy.local.program import Program
from deploy.local.servers import LocalServers
from tests.support.processes import gone, lives

_SLEEP = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
_CALLER = """
import sys, time
from pathlib import Path
from deploy.local.program import Program
from deploy.local.servers import LocalServers
sleep = Program("sleep", ["sh", "-c", "echo up; exec sleep 600"])
with LocalServers(Path(sys.argv[1]), [sleep], kafka=False, redis=False) as servers:
    while not servers.log("sleep").read_text():
        time.sleep(0.01)  # until what starts it is done
    print("up", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def no_external_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COPLACE_KAFKA_BOOTSTRAP", raising=False)
    monkeypatch.delenv("COPLACE_REDIS_URL", raising=False)


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[LocalServers]:
    """A runner that keeps programs alone."""
    with LocalServers(tmp_path / "run", kafka=False, redis=False) as servers:
        yield servers


def _broken() -> Program:
    command = ["sh", "-c", "echo no such topic; exit 3"]
    return Program("broken", command, ready_url=_unused_url())


def _unused_url() -> str:
    return f"tcp://127.0.0.1:{free_ports(1)[0]}"


@pytest.mark.usefixtures("no_external_servers")
def test_kafka_and_redis_return_with_their_data_after_kill_9(tmp_path: Path) -> None:
    with LocalServers(tmp_path / "run") as servers:
        redis = Redis.from_url(servers.redis_url)
        redis.set("balance", 7)
        _produce(servers.kafka_bootstrap, b"charge")
        for name in ("redis", "kafka"):
            servers.kill(name)
            servers.wait_ready(name)
        assert redis.get("balance") == b"7"
        assert _consume(servers.kafka_bootstrap) == [b"charge"]
        processes = [psutil.Process(state.pid) for state in servers.states()]
        processes.append(psutil.Process(servers.supervisor_pid()))
    assert gone(processes, within_s=2.0)


def _produce(bootstrap: str, value: bytes) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics({"charges": {"num_partitions": 1, "replication_factor": 1}})
    admin.close()
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    producer.send("charges", value).get(timeout=10)
    producer.close()


def _consume(bootstrap: str) -> list[bytes]:
    consumer = KafkaConsumer(
        "charges",
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        consumer_timeout_ms=5_000,
    )
    try:
        return [next(consumer).value]
    finally:
        consumer.close()


def test_a_killed_program_is_started_again(bare: LocalServers) -> None:
    bare.start([Program("sleeper", _SLEEP)])
    first = bare.pid("sleeper")
    bare.kill("sleeper")
    bare.wait_ready("sleeper", timeout_s=5)
    assert bare.pid("sleeper") not in (0, first)


def test_the_name_of_a_removed_program_is_free(bare: LocalServers) -> None:
    bare.start([Program("sleeper", _SLEEP)])
    first = psutil.Process(bare.pid("sleeper"))
    bare.remove([Program("sleeper", _SLEEP)])
    assert not lives(first)
    assert bare.states() == []
    bare.start([Program("sleeper", _SLEEP)])
    assert bare.pid("sleeper") != first.pid


def test_nothing_is_left_after_kill_9_of_the_supervisor(bare: LocalServers) -> None:
    deaf = Program("deaf", ["sh", "-c", "trap '' TERM; exec sleep 600"])
    bare.start([Program("sleeper", _SLEEP), deaf])
    processes = [psutil.Process(state.pid) for state in bare.states()]
    os.kill(bare.supervisor_pid(), signal.SIGKILL)
    assert gone(processes, within_s=2.0)


def test_nothing_is_left_after_kill_9_of_the_process_that_started_it(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    with subprocess.Popen(
        [sys.executable, "-c", _CALLER, str(run_dir)], stdout=subprocess.PIPE
    ) as caller:
        assert caller.stdout is not None
        assert caller.stdout.readline() == b"up\n"
        started = psutil.Process(caller.pid).children(recursive=True)
        caller.kill()
    assert len(started) == 2
    assert gone(started, within_s=2.0)


def test_a_program_that_ends_again_and_again_is_named_with_its_line_and_log(
    bare: LocalServers,
) -> None:
    with pytest.raises(NotReadyError) as caught:
        bare.start([_broken()])
    told = f"broken ended 3 times before it was ready: no such topic (log: {bare.log('broken')})"
    assert str(caught.value) == told


def test_a_program_that_ended_once_is_waited_for(bare: LocalServers, tmp_path: Path) -> None:
    seen = []
    servers = LocalServers(
        tmp_path / "again", kafka=False, redis=False, on_state=lambda *how: seen.append(how)
    )
    again = f"test -e {tmp_path}/once && exec sleep 600; touch {tmp_path}/once; exit 1"
    with servers:
        servers.start([Program("again", ["sh", "-c", again])])
        assert servers.pid("again")
    assert seen[-1] == ("again", "ready")


def test_a_program_that_is_killed_as_it_starts_is_waited_for(tmp_path: Path) -> None:
    port, seen = free_ports(1)[0], list[str]()

    def kill_first(name: str, how: str) -> None:
        if how == "waits for an answer" and not seen:
            servers.kill(name)
        seen.append(how)

    slow = f"sleep 2; exec {sys.executable} -m http.server {port} --bind 127.0.0.1"
    program = Program("slow", ["sh", "-c", slow], ready_url=f"http://127.0.0.1:{port}/")
    servers = LocalServers(tmp_path / "run", kafka=False, redis=False, on_state=kill_first)
    with servers:
        servers.start([program])
    assert seen[-1] == "ready"
    assert any(how.startswith("ended once, ") for how in seen)


def test_a_program_that_is_not_ready_in_time_is_named_with_its_last_words(
    bare: LocalServers,
) -> None:
    slow = Program("slow", _SLEEP, ready_url=_unused_url(), ready_within_s=1.0)
    with pytest.raises(NotReadyError, match=r"slow is not ready within 1 s: .*up \(log: "):
        bare.start([slow])


def test_nothing_is_left_when_the_start_fails(tmp_path: Path) -> None:
    servers = LocalServers(tmp_path / "run", [_broken()], kafka=False, redis=False)
    with pytest.raises(NotReadyError):
        servers.up()
    assert not servers.is_running()


def test_a_one_shot_program_ends_for_good(bare: LocalServers) -> None:
    bare.start([Program("once", ["echo", "done"], one_shot=True)])
    bare.wait_done("once", timeout_s=5)
    assert bare.log("once").read_text() == "done\n"


def test_a_program_knows_where_kafka_and_redis_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COPLACE_KAFKA_BOOTSTRAP", "kafka.example:9092")
    monkeypatch.setenv("COPLACE_REDIS_URL", "redis://redis.example:6379/0")
    show = Program(
        "show", ["sh", "-c", "env | grep -E 'COPLACE_(KAFKA|REDIS)_' | sort"], one_shot=True
    )
    with LocalServers(tmp_path / "run", [show]) as servers:
        servers.wait_done("show", timeout_s=5)
        assert [state.name for state in servers.states()] == ["show"]
        assert servers.log("show").read_text().splitlines() == [
            "COPLACE_KAFKA_BOOTSTRAP=kafka.example:9092",
            "COPLACE_REDIS_URL=redis://redis.example:6379/0",
        ]


@pytest.mark.usefixtures("no_external_servers")
def test_a_shell_with_the_addresses_of_the_last_start_starts_the_same_servers_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LocalServers(tmp_path / "run", kafka=False) as servers:
        address = servers.redis_url
    monkeypatch.setenv("COPLACE_REDIS_URL", address)
    with LocalServers(tmp_path / "run", kafka=False) as servers:
        assert [state.name for state in servers.states()] == ["redis"]
        assert servers.redis_url == address


def test_a_program_stops_gracefully(bare: LocalServers) -> None:
    polite = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    bare.start([Program("polite", ["sh", "-c", polite])])
    while "up" not in bare.log("polite").read_text():
        time.sleep(0.02)
    bare.down()
    assert bare.log("polite").read_text().endswith("bye\n")


def test_a_second_start_in_the_same_folder_is_refused(bare: LocalServers) -> None:
    with pytest.raises(LocalServersError, match="already"):
        LocalServers(bare.run_dir, kafka=False, redis=False).up()


def test_servers_in_the_background_are_found_by_another_process(
    tmp_path: Path,
) -> None:
    run_dir = tmp_path / "run"
    LocalServers(run_dir, [Program("sleeper", _SLEEP)], kafka=False, redis=False).up()
    try:
        shown = CliRunner().invoke(app, ["status", "--run-dir", str(run_dir)])
        assert shown.exit_code == 0
        assert "sleeper" in shown.output
    finally:
        CliRunner().invoke(app, ["down", "--run-dir", str(run_dir)])
    assert not LocalServers(run_dir).is_running()

"""What kills its process, tried in a child."""

import asyncio
import ctypes
import gc
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from shared.streams.stages.trial_process import Tell, death_of


def test_work_that_ends_leaves_nothing_behind() -> None:
    done: list[int] = []
    assert death_of(lambda _tell: done.append(1)) is None
    assert done == []


def kills_itself(tell: Tell) -> None:
    for step in range(5):
        tell(step)
        if step == 3:
            os.kill(os.getpid(), signal.SIGKILL)


def gets_a_signal_without_a_name(_tell: Tell) -> None:
    os.kill(os.getpid(), signal.SIGRTMIN + 1)


def reads_nowhere(_tell: Tell) -> None:
    ctypes.string_at(0)


def leaves_early(_tell: Tell) -> None:
    sys.exit(0)


@pytest.mark.parametrize(
    ("work", "how", "stack", "told"),
    [
        (kills_itself, "SIGKILL", "", 3),
        (gets_a_signal_without_a_name, f"signal {signal.SIGRTMIN + 1}", "", None),
        (reads_nowhere, "SIGSEGV", "in reads_nowhere", None),
        (leaves_early, "exit code 0", "", None),
    ],
)
def test_a_death_says_how_and_where_and_how_far_it_came(
    work: Callable[[Tell], None], how: str, stack: str, told: int | None
) -> None:
    death = death_of(work)
    assert death is not None
    assert (death.how, death.last_told) == (how, told)
    assert (stack in death.stack) if stack else death.stack == ""


def test_what_the_parent_left_to_collect_is_not_collected_in_the_child() -> None:
    """It may need threads that only the parent has."""

    class Left:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            if os.getpid() != parent:
                os.kill(os.getpid(), signal.SIGKILL)

    parent = os.getpid()
    gc.collect()
    Left()
    assert death_of(lambda _tell: gc.collect()) is None


def test_more_than_a_pipe_holds_can_be_reported() -> None:
    def work(tell: Tell) -> None:
        for _ in range(100):
            tell("x" * 10_000)

    assert death_of(work) is None


def test_one_of_several_children_that_ends_is_enough(tmp_path: Path) -> None:
    lives = tmp_path / "lives"

    def dies_twice(_tell: Tell) -> None:
        with lives.open("a") as file:
            file.write("x")
        if len(lives.read_text()) < 3:
            os.kill(os.getpid(), signal.SIGKILL)

    assert death_of(dies_twice, times=3) is None
    assert lives.read_text() == "xxx"


async def test_a_process_that_serves_grpc_tries_and_goes_on_serving() -> None:
    async def echo(data: bytes, _context: object) -> bytes:
        return data

    def dies(tell: Tell) -> None:
        tell("in hand")
        os.kill(os.getpid(), signal.SIGKILL)

    server = grpc.aio.server()
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(echo)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t", {"E": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        for number in range(3):
            death = await asyncio.to_thread(death_of, dies)
            assert death is not None
            assert (death.how, death.last_told) == ("SIGKILL", "in hand")
            call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/t/E")
            assert await call(b"%d" % number) == b"%d" % number
    await server.stop(None)

"""What was spooled reaches ingest, whatever happens between."""

import asyncio
from pathlib import Path

import grpc
import pytest
from coplace.v1.ingest_service_pb2 import Envelope

from coplace_agent.adapters.ingest import Sender
from coplace_agent.adapters.spool import Spool
from shared.process.settings import Settings
from tests.support.agent_ingest import Ingest, served


def _ids(spool: Spool) -> list[str]:
    return [event.id for _, event in spool.waiting()]


def _flush(spool: Spool, port: int) -> bool:
    async def flush() -> bool:
        return await Sender(spool, f"127.0.0.1:{port}", Settings()).flush()

    return asyncio.run(flush())


def test_events_are_sent_in_their_order_and_removed_when_acknowledged(tmp_path: Path) -> None:
    spool, ingest = Spool(tmp_path, 1000), Ingest()
    for number in range(12):
        spool.add(Envelope(id=str(number)))
    with served(ingest) as port:
        assert _flush(spool, port)
    assert [event.id for event in ingest.got] == [str(number) for number in range(12)]
    assert len(spool) == 0
    assert not spool.is_full


def test_what_was_spooled_outlives_the_agent_and_keeps_its_order(tmp_path: Path) -> None:
    Spool(tmp_path, 1000).add(Envelope(id="first"))
    (tmp_path / "00000000000000000007.writing").write_bytes(b"cut short")
    again = Spool(tmp_path, 1000)
    again.add(Envelope(id="second"))
    assert _ids(Spool(tmp_path, 1000)) == ["first", "second"]


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED])
def test_what_ingest_could_not_take_is_kept_and_sent_again_with_its_id(
    tmp_path: Path, code: grpc.StatusCode
) -> None:
    spool, ingest = Spool(tmp_path, 1000), Ingest()
    spool.add(Envelope(id="one"))
    spool.add(Envelope(id="two"))
    assert not _flush(spool, 1)  # nobody there
    ingest.answers = [grpc.StatusCode.OK, code]
    with served(ingest) as port:
        assert not _flush(spool, port)
        assert _ids(spool) == ["two"]
        assert _flush(spool, port)
    assert [event.id for event in ingest.got] == ["one", "two", "two"]


def test_what_ingest_refuses_holds_up_nothing_and_is_kept(tmp_path: Path) -> None:
    spool, ingest = Spool(tmp_path, 1000), Ingest()
    spool.add(Envelope(id="wrong"))
    spool.add(Envelope(id="right"))
    ingest.answers = [grpc.StatusCode.INVALID_ARGUMENT]
    with served(ingest) as port:
        assert _flush(spool, port)
    assert [event.id for event in ingest.got] == ["wrong", "right"]
    [kept] = (tmp_path / "refused").iterdir()
    assert Envelope.FromString(kept.read_bytes()).id == "wrong"


def test_a_spool_is_full_until_something_is_acknowledged(tmp_path: Path) -> None:
    spool, ingest = Spool(tmp_path, 10), Ingest()
    spool.add(Envelope(id="x" * 20))
    assert spool.is_full
    assert Spool(tmp_path, 10).is_full
    with served(ingest) as port:
        _flush(spool, port)
    assert not spool.is_full

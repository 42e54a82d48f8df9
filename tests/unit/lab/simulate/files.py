"""Small files to simulate."""

from collections.abc import Iterable
from pathlib import Path

import orjson
from coplace.v1.placement_pb2 import PlacementDecided
from google.protobuf.json_format import MessageToDict

from shared.catalogue.event_json import write_events
from shared.replay.inputs import RecordedInputs
from tests.unit.services.energy.files import apps, pairs, write

_LINE = "{} {} -1 {} {} -1 -1 {} {} -1 1 1 1 -1 -1 -1 -1 -1\n"
_JOBS = (  # job, submit, run, procs, limit: 13 waits for 11, 15 ends before 13 can start
    (11, 0, 10, 3, 12),
    (13, 1, 20, 4, 20),
    (15, 2, 5, 1, 5),
    (17, 3, 9, 9, 9),
    (19, 40, 30, 2, 25),
)


def write_log(path: Path, head: str = "", tail: str = "") -> Path:
    """Five jobs, one of which asks for 9 processors."""
    lines = (_LINE.format(*job[:4], *job[3:]) for job in _JOBS)
    path.write_text("".join([head, *lines, tail]))
    return path


def write_models(folder: Path, *modules: str) -> Path:
    """A folder of coefficients and signatures of two applications."""
    folder.mkdir()
    signatures: list[dict[str, object]] = []
    for number, module in enumerate(modules):
        write(folder / f"{module}_coefficients.csv", pairs({"A": 0.5, "C": 10.0}))
        for app_id, time_s in (("a", 10.0 + number), ("b", 12.0 - 2 * number)):
            signatures.append({"app_id": app_id, "module": module, "time_s": time_s})
    write(folder / "apps.csv", apps(*signatures))
    return folder


def write_record(
    folder: Path, inputs: RecordedInputs, decisions: Iterable[PlacementDecided] = ()
) -> Path:
    """What placement read, and what it decided beside it."""
    path = folder / "placement.inputs.jsonl"
    write_events(path, [e for each in inputs.rounds for e in (*each.events, each.barrier)])
    lines = [orjson.dumps(MessageToDict(d, preserving_proto_field_name=True)) for d in decisions]
    (folder / "decisions.jsonl").write_bytes(b"\n".join(lines))
    return path

"""The kernels that come with Coplace, as a campaign of this machine."""

import os
import subprocess
import time
from pathlib import Path
from typing import Final

import yaml

from cli.profile.campaign import Campaign
from coplace_client import heartbeats as client
from coplace_client.errors import UnusableError
from coplace_client.files import write_whole

_SOURCE: Final = Path(__file__).with_name("kernels.c")
NAMES: Final = (
    *("triad", "stencil", "transform", "gather", "chase", "words", "matrix", "mandel", "sort"),
    *("compress", "pages", "disk"),
)
_BUBBLES_MIB: Final = (1, 4, 16, 64)
_REPORTER: Final = "reporter"
_FIRST_BEATS: Final = 8
_LEAST_S: Final = 0.05


def compile_kernels(folder: Path) -> Path:
    """Compile the program of all kernels in a folder. Raises UnusableError without a C compiler."""
    program = folder / "kernels"
    include = str(Path(client.__file__).parent)
    command = ["gcc", "-O2", "-pthread", "-I", include, str(_SOURCE), "-o", str(program)]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise UnusableError("kernels are compiled by gcc: apt-get install gcc libc6-dev") from None
    except subprocess.CalledProcessError as error:
        raise UnusableError(f"kernels cannot be compiled: {error.stderr[-300:]}") from None
    return program


def campaign(program: Path, run_s: float, repetitions: int) -> Campaign:
    """Return the campaign of all kernels, each for about `run_s` alone on one core: in pairs with a
    thread of each on every core, and, with two cores and more, on halves of them. Runs each for a
    moment."""
    cores = sorted(os.sched_getaffinity(0))
    halves = cores[: len(cores) // 2], cores[len(cores) // 2 :]
    placements = {"shared-cores": {"primary": cores, "beside": cores}}
    if all(halves):
        placements["own-cores"] = {"primary": halves[0], "beside": halves[1]}

    def command(kind: str) -> str:
        return f"{program} {kind} {_beats(program, kind, run_s, cores[0])} {{cores}}"

    return Campaign.model_validate(
        {
            "applications": {kind: command(kind) for kind in NAMES},
            "bubbles": {mib: f"{program} bubble:{mib} 0 {{cores}}" for mib in _BUBBLES_MIB},
            "reporter": command(_REPORTER),
            "placements": placements,
            "repetitions": repetitions,
        }
    )


def write(path: Path, found: Campaign) -> None:
    """Write a campaign as a file that can be changed."""
    with write_whole(path) as fresh:
        text = yaml.safe_dump(found.model_dump(mode="json"), sort_keys=False, width=200)
        fresh.write_text(text, encoding="utf-8")


def _beats(program: Path, kind: str, run_s: float, core: int) -> int:
    """How many it makes in so long, less what it takes before the first one."""
    beats = _FIRST_BEATS
    while True:
        once_s, twice_s = (_took_s(program, kind, n, core) for n in (beats, 2 * beats))
        if twice_s - once_s >= _LEAST_S:
            beat_s = (twice_s - once_s) / beats
            return max(1, round((run_s - once_s) / beat_s + beats))
        beats *= 2


def _took_s(program: Path, kind: str, beats: int, core: int) -> float:
    began_s = time.monotonic()
    subprocess.run([program, kind, str(beats), str(core)], check=True, cwd=program.parent)
    return time.monotonic() - began_s

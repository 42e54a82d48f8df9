"""Reports as EAR's `eacct` writes them, of applications whose coefficients were published.

Every application runs at five clocks, on several nodes that do not share their work evenly, with
noise in all that is measured. The highest clock is asked for as turbo. Beside them are a batch
step without counters, a short step before the main one, nodes under a limit of power, and a run
of another application under the same name: `python -m tests.support.ear_reports --seed 7`.
"""

import argparse
import random
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lab.emulator.ear_reports import COLUMNS
from lab.papers.published_data import DATA
from services.energy.adapters.matching import read_matched
from shared.models.ear import project

HEADER: Final = (*COLUMNS, "GFLOPS")
BATCH_STEP: Final = 4294967291
LIMIT_W: Final = 300.0
CLOCKS: Final = 5
_NOISE: Final = 0.007
# Turbo is asked for by a nominal clock and 1 MHz.
_TURBO_KHZ: Final = 2401000


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What an application does at one clock."""

    ghz: float
    time_s: float
    power_w: float
    cpi: float
    tpi: float


Applications = Mapping[str, list[Behaviour]]


def published(folder: Path = DATA / "eamc", module: str = "normal") -> Applications:
    """The published applications at five clocks, by equations 1 to 3."""
    table = folder / f"{module}_coefficients.csv"
    [matched] = read_matched([table], folder / "apps.csv")
    found = project(matched.coefficients, matched.signatures)
    known = [k for k in range(len(found.pstates_ghz)) if found.available[:, k].all()]
    picked = [known[round(i * (len(known) - 1) / (CLOCKS - 1))] for i in range(CLOCKS)]
    top = found.pstates_ghz[-1]
    return {
        f"app{signature.app_id}": [
            Behaviour(
                ghz := found.pstates_ghz[k],
                float(found.time_s[row, k]),
                float(found.power_w[row, k]),
                signature.cpi * float(found.time_s[row, k]) / signature.time_s * ghz / top,
                signature.tpi,
            )
            for k in picked
        ]
        for row, signature in enumerate(matched.signatures)
    }


class _Writer:
    """Rows with noise in what is measured."""

    def __init__(self, seed: int) -> None:
        self._drawn = random.Random(seed)
        self._job = 1000

    def noisy(self, value: float) -> float:
        return value * self._drawn.gauss(1, _NOISE)

    def row(
        self, step: int, app: str, node: int, at: Behaviour, **other: object
    ) -> dict[str, object]:
        asked_khz = round(at.ghz * 1e6)
        return {
            **dict.fromkeys(HEADER, 0),
            "NODE_ID": f"n{node}",
            "JOB_ID": self._job,
            "STEP_ID": step,
            "APP_ID": app,
            "USER_ID": "ada",
            "POLICY": "monitoring",
            "DEF.FREQ": asked_khz,
            "AVG.CPUFREQ": round(asked_khz * self._drawn.uniform(0.992, 0.999)),
            "TIME": f"{at.time_s:.6f}",
            "CPI": f"{self.noisy(at.cpi):.6f}",
            "TPI": f"{self.noisy(at.tpi):.6f}",
            "DC-NODE-POWER": f"{at.power_w:.6f}",
            **other,
        }

    def job(
        self, app: str, at: Behaviour, asked: Mapping[str, object]
    ) -> Iterator[dict[str, object]]:
        """A batch step, a short step, and the main step on some nodes."""
        self._job += 1
        nodes, time_s = self._drawn.choice((1, 2, 4)), self.noisy(at.time_s)
        power_w = self.noisy(at.power_w * 0.55)
        short = Behaviour(at.ghz, at.time_s / 30, power_w, at.cpi * 3, at.tpi / 9)
        yield self.row(BATCH_STEP, app, 1, at, CPI=0, TPI=0, **{"DC-NODE-POWER": 0})
        yield self.row(0, app, 1, short, **asked)
        for node in range(1, nodes + 1):
            share = 1 + 0.02 * (node - (nodes + 1) / 2)
            power_w = self.noisy(at.power_w) * share
            yield self.row(
                1, app, node, Behaviour(at.ghz, time_s, power_w, at.cpi / share, at.tpi), **asked
            )

    def strange(self, app: str, middle: Behaviour, top: Behaviour) -> Iterator[dict[str, object]]:
        """Runs under a limit of power, and one of another application."""
        held = Behaviour(middle.ghz, top.time_s * 1.3, LIMIT_W, middle.cpi, top.tpi)
        for _ in range(4):
            self._job += 1
            yield self.row(1, app, 7, held, **{"DEF.FREQ": _TURBO_KHZ})
        self._job += 1
        other = Behaviour(top.ghz, top.time_s * 5, top.power_w * 0.5, top.cpi * 7, top.tpi * 4)
        yield self.row(1, app, 1, other)


def rows(applications: Applications, seed: int, repeats: int = 3) -> Iterator[dict[str, object]]:
    """The rows of a report."""
    writer = _Writer(seed)
    for app, clocks in applications.items():
        turbo: dict[str, object] = {"DEF.FREQ": _TURBO_KHZ}
        asked = {clocks[-1]: turbo, clocks[0]: {**turbo, "POLICY": "min_energy"}}
        for at in clocks:
            for _ in range(repeats):
                yield from writer.job(app, at, asked.get(at, {}))
    app, clocks = next(iter(applications.items()))
    yield from writer.strange(app, clocks[CLOCKS // 2], clocks[-1])


def text(found: Iterator[dict[str, object]], separator: str = ";") -> str:
    """A report as text."""
    lines = [separator.join(str(row[name]) for name in HEADER) for row in found]
    return "\n".join([separator.join(HEADER), *lines, ""])


def main() -> None:
    """Print a report of the published applications."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--module", default="normal")
    given = parser.parse_args()
    sys.stdout.write(text(rows(published(module=given.module), given.seed)))


if __name__ == "__main__":
    main()

"""A declared substitute for runs of groups that nobody published: a contention model, with noise.

Dauwe et al. (2016) measured eleven applications beside up to 3 others on a processor of 4 cores,
and published of them the memory intensities of Table 3 and none of the run times. Here run times
and energies come from a model that shares nothing with the models that are learned:

- The last-level cache is shared by the rates of accesses; misses go with the power -1/2 of what an
  application has of it (Hartstein et al., "Cache miss behavior: is it sqrt(2)?", 2006), at most all
  accesses.
- A miss takes longer by the queue for memory bandwidth, as in an M/D/1 queue: 1 + u / (2 (1 - u)).
- Misses take as long at any frequency, and an application waits for all of its misses.
- A core draws more by f^3, less while it waits; memory draws by the byte; the rest is constant.

Rates depend on run times and these on rates: solved by damped iteration. The run times alone, the
accesses and the powers are made up, in the range of the paper (150 to 1,000 s). All are
multiplied by a log-normal noise of 1 %.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations, combinations_with_replacement
from typing import Final, NamedTuple

import numpy as np

from lab.evaluate.group_features import AppAlone, GroupRun
from lab.evaluate.group_files import GroupFiles

FREQUENCIES_GHZ: Final = (3.2, 2.7, 2.2, 1.8, 1.3, 0.8)
NEIGHBOURS: Final = ("cg", "sp", "fluidanimate", "ep")
CORES: Final = 4
_NOMINAL_GHZ: Final = FREQUENCIES_GHZ[0]
_MISS_NS: Final = 70.0
_LINE_BYTES: Final = 64
_PEAK_GBPS: Final = 12.0
_MOST_USE: Final = 0.95
_NOISE: Final = 0.01
_BASE_W: Final = 25.0
_CORE_W: Final = 14.0
_WAITING_SHARE: Final = 0.4
_W_PER_GBPS: Final = 1.5
_ROUNDS: Final = 60


class Nature(NamedTuple):
    """An application: misses per instruction alone (Table 3), the part of its accesses to the
    last-level cache that miss alone, and its run time alone at the highest frequency."""

    misses: float
    miss_ratio: float
    alone_s: float


NATURES: Final = {
    "canneal": Nature(1.84e-2, 0.60, 320.0),
    "cg": Nature(1.56e-2, 0.55, 250.0),
    "ua": Nature(1.63e-3, 0.20, 410.0),
    "sp": Nature(1.50e-3, 0.18, 330.0),
    "lu": Nature(1.11e-3, 0.22, 280.0),
    "fluidanimate": Nature(8.60e-4, 0.10, 260.0),
    "freqmine": Nature(3.47e-5, 0.02, 450.0),
    "blackscholes": Nature(1.88e-5, 0.05, 170.0),
    "bodytrack": Nature(8.69e-7, 0.002, 220.0),
    "ep": Nature(6.27e-10, 0.001, 190.0),
    "swaptions": Nature(4.22e-10, 0.001, 240.0),
}
# Nanoseconds that an instruction takes on a core at the highest frequency without any miss.
_CORE_NS: Final = 0.4


class _Played(NamedTuple):
    """Times as multiples of those alone at the highest frequency, and the power of all, W."""

    seconds: list[float]
    power_w: float


def played(apps: Sequence[str], freq_ghz: float) -> _Played:
    """Play a group, without noise."""
    return _played(tuple(apps), freq_ghz)


@cache
def _played(apps: tuple[str, ...], freq_ghz: float) -> _Played:
    natures = [NATURES[app] for app in apps]
    alone = np.array([each.misses for each in natures])
    accesses = alone / np.array([each.miss_ratio for each in natures])
    core_ns = _CORE_NS * _NOMINAL_GHZ / freq_ghz
    instruction_ns = np.full(len(apps), core_ns) + alone * _MISS_NS
    misses, wait_ns = alone, alone * _MISS_NS
    for _ in range(_ROUNDS):
        rates = accesses / instruction_ns
        cache = rates / rates.sum()
        misses = np.minimum(alone / np.sqrt(cache), accesses)
        gbps = (misses / instruction_ns).sum() * _LINE_BYTES
        use = min(gbps / _PEAK_GBPS, _MOST_USE)
        wait_ns = misses * _MISS_NS * (1 + use / (2 * (1 - use)))
        instruction_ns = (instruction_ns + core_ns + wait_ns) / 2
    nominal_ns = np.array([_alone_ns(each) for each in natures])
    seconds = np.array([each.alone_s for each in natures]) * instruction_ns / nominal_ns
    working = 1 - (1 - _WAITING_SHARE) * wait_ns / instruction_ns
    core_w = _CORE_W * (freq_ghz / _NOMINAL_GHZ) ** 3 * float(working.sum())
    moved_gbps = float((misses / instruction_ns).sum()) * _LINE_BYTES
    return _Played(seconds.tolist(), _BASE_W + core_w + _W_PER_GBPS * moved_gbps)


@cache
def _alone_ns(nature: Nature) -> float:
    """An instruction of it alone at the highest frequency, by the same queue."""
    found = _CORE_NS + nature.misses * _MISS_NS
    for _ in range(_ROUNDS):
        use = min(nature.misses / found * _LINE_BYTES / _PEAK_GBPS, _MOST_USE)
        wait_ns = nature.misses * _MISS_NS * (1 + use / (2 * (1 - use)))
        found = (found + _CORE_NS + wait_ns) / 2
    return found


def alone() -> dict[tuple[str, float], AppAlone]:
    """Return every application alone at every frequency, by both."""
    found = {}
    for app, nature in NATURES.items():
        for freq_ghz in FREQUENCIES_GHZ:
            seconds, power_w = played([app], freq_ghz)
            instructions = nature.alone_s / _alone_ns(nature) * 1e9
            misses = nature.misses * instructions
            found[app, freq_ghz] = AppAlone(
                seconds[0], power_w, instructions, misses / nature.miss_ratio, misses
            )
    return found


def training_groups(cores: int, seed: int) -> Iterator[GroupRun]:
    """Yield the schedule of Table 5: each target beside copies of one neighbour, at every
    frequency."""
    rng = np.random.default_rng(seed)
    for freq_ghz in FREQUENCIES_GHZ:
        for target in NATURES:
            for neighbour in NEIGHBOURS:
                for copies in range(1, cores):
                    yield _run(target, (neighbour,) * copies, freq_ghz, rng)


def mixed_groups(seed: int) -> Iterator[GroupRun]:
    """Yield each target beside two neighbours that differ, at every frequency."""
    rng = np.random.default_rng(seed)
    for freq_ghz in FREQUENCIES_GHZ:
        for target in NATURES:
            for pair in combinations(NEIGHBOURS, 2):
                yield _run(target, pair, freq_ghz, rng)


def all_groups(cores: int, seed: int) -> Iterator[GroupRun]:
    """Yield every group of algorithm 2: of the four neighbours at the highest frequency; the mean
    of ten."""
    rng = np.random.default_rng(seed)
    for target in NEIGHBOURS:
        for others in range(1, cores):
            for group in combinations_with_replacement(NEIGHBOURS, others):
                runs = [_run(target, group, _NOMINAL_GHZ, rng) for _ in range(10)]
                time_s, energy_j = np.mean([(r.time_s, r.energy_j) for r in runs], axis=0).tolist()
                yield GroupRun(target, group, _NOMINAL_GHZ, time_s, energy_j)


def _run(
    target: str, others: tuple[str, ...], freq_ghz: float, rng: np.random.Generator
) -> GroupRun:
    """The target beside others, who begin again whenever they end; of all cores the energy."""
    seconds, power_w = played([target, *others], freq_ghz)
    noise = np.exp(rng.normal(0.0, _NOISE, 2))
    time_s = seconds[0] * float(noise[0])
    return GroupRun(target, others, freq_ghz, time_s, power_w * time_s * float(noise[1]))


def group_files(cores: int, seed: int = 0) -> GroupFiles:
    """Return what is learned from."""
    return GroupFiles(alone(), list(training_groups(cores, seed)), [])

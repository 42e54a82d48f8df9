"""What is drawn of each application from the seed: no source gives it for those of Table 1."""

from math import sqrt
from typing import Final, NamedTuple

import numpy as np

from lab.emulator.truth.noise import Noise
from shared.numerics.elementary import exp

# Declared. Table 1's slopes and the published coefficients of the same applications give parts of
# the time that follow the clock which differ by 2 to 17 %: we take a twentieth.
CLOCK_SHARE_SIGMA: Final = 0.05
# Applications with wide vector instructions, and how far below the nominal clock they hold a node
# on which all cores run them. Intel's limits for AVX-512 on all cores of such processors are
# between a tenth below the nominal clock and near it; the base clocks for it are lower still.
# DGEMM's published power and time change least over the last 0.1 and 0.2 GHz.
VECTOR_SHARE: Final = 0.4
VECTOR_LIMIT: Final = (0.88, 0.97)
# Turbo that the power budget leaves where all cores work. The published ep.D takes 6.8 % less time
# and 14 % more power over the last 0.1 GHz of p1: the clock that ran was about 0.1 GHz higher.
MOST_TURBO_GHZ: Final = 0.2
# Share of the time that does not follow the clock in which cores wait for messages. Studies of MPI
# programs report a tenth to a half of the whole time at scale.
MOST_WAITING: Final = 0.5
# Standard deviation of the work of a job's nodes; a few percent where a mesh is split well.
MOST_IMBALANCE: Final = 0.06
# Inputs under one name: how they differ from the published one, the first, as ln's deviations.
INPUTS: Final = 3
INPUT_TIME_SIGMA: Final = 0.20
INPUT_MEMORY_SIGMA: Final = 0.10
INPUT_POWER_SIGMA: Final = 0.04
INPUT_CPI_SIGMA: Final = 0.05
MOST_SIGMAS: Final = 2.0
# Users stay with one input and change it for a fourth of their jobs.
OTHER_INPUT_SHARE: Final = 0.25


class AppInput(NamedTuple):
    """An input of an application against the published one, as ratios; `core_w` is the power of
    the cores."""

    time: float = 1.0
    memory: float = 1.0
    core_w: float = 1.0
    cpi: float = 1.0


class AppTraits(NamedTuple):
    """How an application differs from what Table 1 says of it.

    `clock_share` multiplies the part of its time that follows the clock; `vector_limit` is the
    highest clock with its instructions against the nominal one, 1 where it has no wide ones.
    `waiting` is the share of its other time in which it waits busily, `imbalance` the deviation of
    its nodes' work.
    """

    clock_share: float = 1.0
    vector_limit: float = 1.0
    turbo_ghz: float = 0.0
    waiting: float = 0.0
    imbalance: float = 0.0
    inputs: tuple[AppInput, ...] = (AppInput(),)


PLAIN: Final = AppTraits()
PUBLISHED_INPUT: Final = AppInput()


def traits_of(noise: Noise, app_id: str) -> AppTraits:
    """Draw what an application is like: the same on every node model and in every process."""
    rng = noise.generator("application", app_id)
    share, vector, limit, turbo, waiting, imbalance = rng.random(6).tolist()
    lowest, highest = VECTOR_LIMIT
    is_vector = vector < VECTOR_SHARE
    others = [_input(rng) for _ in range(INPUTS - 1)]
    return AppTraits(
        clock_share=exp(CLOCK_SHARE_SIGMA * sqrt(3.0) * (2 * share - 1)),
        vector_limit=lowest + (highest - lowest) * limit if is_vector else 1.0,
        turbo_ghz=0.0 if is_vector else MOST_TURBO_GHZ * turbo,
        waiting=MOST_WAITING * waiting,
        imbalance=MOST_IMBALANCE * imbalance,
        inputs=(PUBLISHED_INPUT, *others),
    )


def _input(rng: np.random.Generator) -> AppInput:
    drawn = np.clip(rng.standard_normal(4), -MOST_SIGMAS, MOST_SIGMAS).tolist()
    sigmas = (INPUT_TIME_SIGMA, INPUT_MEMORY_SIGMA, INPUT_POWER_SIGMA, INPUT_CPI_SIGMA)
    return AppInput(*(exp(sigma * z) for sigma, z in zip(sigmas, drawn, strict=True)))


def input_of(noise: Noise, traits: AppTraits, app_id: str, user: str, job: str) -> AppInput:
    """Draw the input of a job: mostly the one that its user always has."""
    usual = noise.generator("input", app_id, user).random()
    other, drawn = noise.generator("input", job).random(2).tolist()
    chosen = drawn if other < OTHER_INPUT_SHARE else usual
    return traits.inputs[int(chosen * len(traits.inputs))]


def unevenness(noise: Noise, traits: AppTraits, job: str, nodes: int) -> float:
    """Draw how much more work the fullest node of a job has than its mean node, as a share of that:
    all others wait for it."""
    if nodes < 2 or not traits.imbalance:
        return 0.0
    works = noise.generator("imbalance", job).standard_normal(nodes)
    return traits.imbalance * float(works.max() - works.mean())

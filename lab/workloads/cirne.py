"""Jobs of the shape of the Cirne-Berman model with the ANL arrival pattern.

W. Cirne and F. Berman, "A comprehensive model of the supercomputer workload", WWC-4, 2001. The
model draws a partition size (mostly a power of two), a requested time and its accuracy (the share
of it that the job runs: gamma), and lets the rate of arrivals follow the time of day. Its fitted
parameters are in the paper and in the authors' program, neither of which was at hand: EVERY
NUMBER HERE IS A CALIBRATION OF OURS. Of two sources:

- what D'Amico and Corbalan (2021, section 5) state of the workload that they made with the model:
  18.29 nodes and 3.65 h at the highest frequency in the mean, and that 5,000 jobs take 10 to 15
  days on 2 x 512 nodes, depending on policy and applications;
- the sample of 200 such jobs for 10 nodes in their published data (IEEE DataPort
  10.21227/e02v-y602, cirne.10n.maxjob8n.anl.200.csv), whose times are compressed.
"""

from math import sqrt
from typing import Final

import numpy as np

from coplace_client.errors import UnusableError
from lab.workloads import gamma
from lab.workloads.rigid import Floats, Ints, RigidJobs
from lab.workloads.streams import Stream, stream
from shared.numerics import normal
from shared.numerics.elementary import exps

MEAN_RUN_S: Final = 3.65 * 3600
MAX_NODES: Final = 128
# Each power of two is this much as likely as the one before: the mean of 1 to 128 nodes is then
# 18.29. The most likely value for the sample alone is 0.827.
SIZE_DECAY: Final = 0.8221
# Requests are uniform in their logarithm over this range, and jobs run for a gamma-distributed
# share of them. Among such pairs that give the sample's mean share of a fifth this one brings the
# runtimes over their mean closest to the sample's (Kolmogorov-Smirnov distance 0.12).
LN_REQUEST_RANGE: Final = 4.5
ACCURACY_SHAPE: Final = 1.5
ACCURACY_MEAN: Final = 0.2
# Correlation of size and request as normal ranks. 5,000 x 18.29 nodes x 3.65 h are 13.6 days of
# 1,024 nodes without a gap, and jobs at lower P-states take longer: for 15 days at most the paper's
# sizes and times cannot have been independent, larger jobs were shorter. With this value the jobs
# are 0.77 of that, and 10 to 15 days hold for all policies that use both clusters, by applications
# and frequency as the paper says. They cannot hold for Base on seven of eight applications too,
# which by the paper's figure 3 takes 1 / (1 - 0.39) times as long as Min_runtime.
SIZE_REQUEST_CORRELATION: Final = -0.2
# How long jobs arrive decides how long they wait. Taken from what the paper says of its baselines
# (never of EAMC): response times of Min_runtime are 64 % below those of Base where seven of eight
# jobs are best off on one cluster, and those of Base 19 % below Min_runtime's where it is half.
SPAN_S: Final = 8 * 86400.0
DAY_S: Final = 86400.0
# The sample's arrivals repeat every 8 jobs, which is their day, and are otherwise regular; this is
# the first harmonic of their rate relative to the mean. That most come at 14:00 is our own.
DAILY_AMPLITUDE: Final = 0.42
BUSIEST_S: Final = 14 * 3600.0
REQUEST_STEP_S: Final = 60.0


def cirne_jobs(
    seed: int,
    jobs: int = 5000,
    max_nodes: int = MAX_NODES,
    correlation: float = SIZE_REQUEST_CORRELATION,
) -> RigidJobs:
    """Draw `jobs` jobs of up to `max_nodes` nodes, the same for the same arguments.

    The mean runtime is MEAN_RUN_S for every seed. The arrivals end after SPAN_S for 5,000 jobs of
    up to MAX_NODES nodes, after proportionally less for fewer jobs: the load stays. Raises
    UnusableError for less than one job or node.
    """
    if jobs < 1 or max_nodes < 1:
        raise UnusableError(f"jobs and nodes must be at least 1, got {jobs} and {max_nodes}")
    size_rank, own_rank = stream(seed, Stream.SIZE), stream(seed, Stream.RUNTIME)
    size = normal.quantiles(size_rank.random(jobs))
    rest = sqrt(1 - correlation * correlation) * normal.quantiles(own_rank.random(jobs))
    request = _normal_share(correlation * size + rest)
    requested = exps(LN_REQUEST_RANGE * request)
    run = requested * _accuracy(stream(seed, Stream.ACCURACY).random(jobs))
    scale_s = MEAN_RUN_S / run.mean()
    return RigidJobs(
        submit_s=_arrivals_s(stream(seed, Stream.ARRIVAL).random(jobs)),
        nodes=_sizes(_normal_share(size), max_nodes),
        run_s=run * scale_s,
        requested_s=np.ceil(requested * scale_s / REQUEST_STEP_S) * REQUEST_STEP_S,
    )


def _normal_share(x: Floats) -> Floats:
    """The share of the standard normal distribution below each value."""
    return np.asarray(0.5 * (1 + np.copysign(gamma.shares(0.5, 0.5 * x * x), x)))


def _sizes(uniform: Floats, max_nodes: int) -> Ints:
    """Powers of two up to `max_nodes`, (jobs,)."""
    weights = np.cumprod([1.0, *[SIZE_DECAY] * (max_nodes.bit_length() - 1)])
    ends = np.cumsum(weights / weights.sum())
    return np.left_shift(1, np.searchsorted(ends[:-1], uniform, side="right").astype(np.int64))


def _accuracy(uniform: Floats) -> Floats:
    """The gamma given that no job runs longer than requested, by inverting its distribution."""
    scale = ACCURACY_MEAN / ACCURACY_SHAPE
    return scale * gamma.quantiles(ACCURACY_SHAPE, uniform * gamma.share(ACCURACY_SHAPE, 1 / scale))


def _arrivals_s(uniform: Floats) -> Floats:
    """Arrivals in s after the first midnight, ascending, (jobs,).

    One in each of equal shares of the arrivals, anywhere in it. The rate over the day is 1 +
    DAILY_AMPLITUDE cos, and what has arrived by then its integral, inverted by interpolation.
    """
    days = SPAN_S / DAY_S * len(uniform) / 5000
    share = (np.arange(len(uniform)) + uniform) / len(uniform)
    clock_s = np.linspace(0, DAY_S, 24 * 60 + 1)
    sine = _sines((clock_s - BUSIEST_S) / DAY_S)
    amplitude_s = DAILY_AMPLITUDE * DAY_S / (2 * np.pi)
    passed_s = clock_s + amplitude_s * (sine - sine[0])
    whole, rest = np.divmod(share * days, 1)
    return np.asarray(whole * DAY_S + np.interp(rest * DAY_S, passed_s, clock_s))


def _sines(turns: Floats) -> Floats:
    """The sine of each angle in full turns, by Taylor's series of at most a quarter of one."""
    part = turns - np.rint(turns)
    folded = np.where(np.abs(part) > 0.25, np.copysign(0.5, part) - part, part)
    angle = 2 * np.pi * folded
    value = np.ones_like(angle)
    for n in range(21, 1, -2):
        value = 1 - angle * angle / (n * (n - 1)) * value
    return angle * value

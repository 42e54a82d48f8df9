"""What jobs pay beside others over what they pay alone: state of practice, POPPA and the oracle.

As in section 9 of POPPA (Breslow et al., 2013; figure 12). The oracle is equation 4 by the true
slowdown, which only a simulation and an interleaved run alone know.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

import numpy as np

from shared.pricing.model import Evidence, price

# Of the run alone: a price of 1,000 SU, so that what is quantised to 0.000001 does not matter.
_ALONE_US: Final = 1_000_000_000
_RATE_SU: Final = Decimal(1)


def relative_price(slowdown_ratio: float, estimate_ratio: float) -> float:
    """Return what pricing charges a run that was truly slowed down by the one and is believed to be
    by the other, over what the run alone costs. An estimate of 1 is the state of practice."""
    runtime_us = round(_ALONE_US * slowdown_ratio)
    row = Evidence("co-runner", runtime_us, max(1.0, estimate_ratio))
    charged_su = price(_RATE_SU, 1, runtime_us, [row]).price_su
    return float(charged_su / price(_RATE_SU, 1, _ALONE_US, []).price_su)


def discounts(truths: Sequence[float], estimates: Sequence[float]) -> Mapping[str, str]:
    """Return means over jobs, by their true slowdowns and what algorithm 4 makes of their
    shutters."""
    practice = [relative_price(truth, 1.0) for truth in truths]
    oracle = [relative_price(truth, truth) for truth in truths]
    poppa = [
        relative_price(truth, estimate) for truth, estimate in zip(truths, estimates, strict=True)
    ]
    above = [each - 1 for each in poppa if each > 1]
    return {
        "state of practice": f"{_percent(practice):+.1f} %",
        "POPPA": f"{_percent(poppa):+.1f} %",
        "oracle": f"{_percent(oracle):+.1f} %",
        "least of POPPA": f"{_percent([min(poppa)]):+.1f} %",
        "least of the oracle": f"{_percent([min(oracle)]):+.1f} %",
        "above alone by POPPA": f"{len(above)} of {len(poppa)}",
        "by, in the mean": f"{100 * float(np.mean(above)):.1f} %" if above else "0.0 %",
    }


def _percent(relative: Sequence[float]) -> float:
    return 100 * (float(np.mean(relative)) - 1)

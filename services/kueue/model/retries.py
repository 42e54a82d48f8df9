"""After which time Kueue tries a Workload again that gave its quota back."""

from math import ceil
from typing import Final

from shared.kubernetes.explained_wait import ExplainedWait

_LEAST_S: Final = 5
_MOST_S: Final = 60
_MOST_DOUBLINGS: Final = 8


def retry_s(explained: ExplainedWait, now_us: int, tried: int) -> int:
    """Return after which time Kueue is to try again, s, once it has been put off so often: until
    the expected start, but sooner at first, since others may end before their limits."""
    most_s = min(_LEAST_S << min(max(tried - 1, 0), _MOST_DOUBLINGS), _MOST_S)
    if not explained.expected_us:
        return most_s
    return min(max(ceil((explained.expected_us - now_us) / 1e6), _LEAST_S), most_s)

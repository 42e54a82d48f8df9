"""Which nodes a resource manager takes out and brings back, against what is known of them."""

from collections import defaultdict
from collections.abc import Mapping


def drain_changes(
    now_out: Mapping[str, str], drained_by: Mapping[str, str], source: str
) -> tuple[dict[str, list[str]], list[str]]:
    """Return the nodes to drain, by reason, and the nodes to resume. Drain those that are out (with
    reasons) and not known to be drained; resume those that this source drained and that are back:
    what others drained is theirs to resume."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for name, reason in now_out.items():
        if name not in drained_by:
            by_reason[reason].append(name)
    return by_reason, [
        name for name, by in drained_by.items() if by == source and name not in now_out
    ]

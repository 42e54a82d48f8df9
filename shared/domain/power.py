"""Power in words."""

from functools import lru_cache


@lru_cache(maxsize=4096)  # a job needs the same under each of its caps
def in_watts(power_mw: int) -> str:
    """Format milliwatts in the unit of caps."""
    return f"{power_mw / 1000:,.10g} W"


def unrated_words(cluster: str) -> str:
    """Return in words what a cluster has to declare, so that caps can limit it."""
    return (
        f"cluster {cluster} declares neither nameplate_power_w nor processors_tdp_w (and tdp_w of "
        "its GPUs)"
    )

"""The frequencies that processors may have at the most, which is how P-states are set."""

from pathlib import Path

_LIMITS = "devices/system/cpu/cpufreq/policy*/scaling_max_freq"


def frequency_limits(sys: Path) -> tuple[str, ...]:
    """Return the limits of each policy of cpufreq below a sysfs, as they are written there; nothing
    where there is none."""
    return tuple(file.read_text().strip() for file in sorted(sys.glob(_LIMITS)))

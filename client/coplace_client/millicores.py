"""Cores in thousandths, as jobs ask for them: whole numbers, so that sums of parts are exact.

Messages have whole cores. Beside them they have thousandths where these are no whole cores, so that
who does not know of thousandths reads too many cores rather than too few.
"""

from decimal import Decimal
from typing import Final

from coplace_client.errors import RejectedError

PER_CORE: Final = 1000
_PER_CORE: Final = Decimal(PER_CORE)


def millicores(cores: int, finer: int = 0) -> int:
    """Return the thousandths of what a message says: whole cores, or finer than that."""
    return finer or cores * PER_CORE


def whole_cores(thousandths: int) -> int:
    """Return cores, rounded up."""
    return -(-thousandths // PER_CORE)


def beside_cores(thousandths: int) -> int:
    """Return what a message says beside its whole cores: nothing where these say all."""
    return thousandths if thousandths % PER_CORE else 0


def exact_cores(thousandths: int) -> Decimal:
    """Return cores as prices multiply them."""
    return Decimal(thousandths) / _PER_CORE


def cores_text(thousandths: int) -> str:
    """Return cores as people read them: 0.25, or 16."""
    return f"{exact_cores(thousandths):f}"


def require_rounded(field: str, cores: int, finer: int) -> None:
    """Raise RejectedError unless cores are their thousandths, rounded up, where there are any."""
    if finer and cores != whole_cores(finer):
        problem = f"must be {whole_cores(finer)}, as {finer} thousandths rounded up, got {cores}"
        raise RejectedError(field, problem)

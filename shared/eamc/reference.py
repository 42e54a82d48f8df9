"""Which of an application's signatures to project from."""

from collections.abc import Sequence
from math import isclose
from typing import Final

from coplace_client.signature import Signature
from shared.domain.coefficients import Coefficients

_SAME_GHZ: Final = 1e-8


def reference_signature(signatures: Sequence[Signature], table: Coefficients) -> Signature | None:
    """Return the signature at the highest P-state that the table has; None where it has none of
    them."""
    usable = (s for s in signatures if _has(table, s.freq_ghz))
    return max(usable, key=lambda s: s.freq_ghz, default=None)


def _has(table: Coefficients, freq_ghz: float) -> bool:
    # Plain Python: for one value against a few, numpy's own comparison takes twenty times as long.
    return any(isclose(freq_ghz, ghz, rel_tol=0, abs_tol=_SAME_GHZ) for ghz in table.pstates_ghz)

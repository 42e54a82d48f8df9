"""Which of an application's signatures to project from."""

from collections.abc import Sequence

import numpy as np

from shared.domain.coefficients import Coefficients
from shared.domain.signature import Signature


def reference_signature(signatures: Sequence[Signature], table: Coefficients) -> Signature | None:
    """The one at the highest P-state that the table has; None where it has none of them."""
    usable = [s for s in signatures if np.isclose(s.freq_ghz, table.pstates_ghz, rtol=0).any()]
    return max(usable, key=lambda s: s.freq_ghz, default=None)

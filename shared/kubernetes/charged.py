"""What a run cost, as its user reads it in Kubernetes."""

from typing import Final

from coplace.v1.pricing_pb2 import ChargeMade

from shared.kubernetes.texts import shown

_J_PER_KWH: Final = 3_600_000


def charged_words(charge: ChargeMade) -> str:
    """Return what was charged of a run, with its energy and slowdown where these are known."""
    words = [f"run {charge.attempt}: {charge.runtime_s:g} s on {charge.cores} cores"]
    words.append(f"{charge.price_su} service units")
    if energy_j := charge.finished.energy_j or charge.predicted_energy_j:
        how = "measured" if charge.finished.energy_j else "predicted"
        words.append(f"{energy_j / _J_PER_KWH:.3f} kWh {how}")
    if charge.slowdown_ratio:
        words.append(f"slowdown {charge.slowdown_ratio:.2f}")
    again = f" (revision {charge.revision})" if charge.revision > 1 else ""
    return shown(f"Coplace: {', '.join(words)}{again}")

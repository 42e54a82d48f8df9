"""What Prometheus sees of pricing: what was reported and cannot be."""

from collections.abc import Iterable

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from services.pricing.processor import PricingProcessor


class ChargeMeter:
    """Asks the processor of this process whenever metrics are read; a standby process has none."""

    def __init__(self) -> None:
        self._pricing: PricingProcessor | None = None

    def watch(self, pricing: PricingProcessor) -> PricingProcessor:
        """Ask this one from now on; the same one."""
        self._pricing = pricing
        return pricing

    def register(self, meter: Meter) -> None:
        """Create the instrument."""
        meter.create_observable_counter(
            "absurd_energies",
            [self._absurd_energies],
            "",
            "Charges with predicted energy or none, since nodes cannot draw what was reported",
        )

    def _absurd_energies(self, _options: CallbackOptions) -> Iterable[Observation]:
        return [Observation(self._pricing.absurd_energies)] if self._pricing else []

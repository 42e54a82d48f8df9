"""What the reader of Slurm's completed jobs counts."""

from collections.abc import Collection

import structlog
from opentelemetry.metrics import Meter

_log = structlog.get_logger(__name__)


class JobcompMeter:
    """Counts, by field, records of which something was cleaned, cut or left out."""

    def __init__(self, meter: Meter) -> None:
        self._repaired = meter.create_counter(
            "ingest_jobcomp_repaired",
            description="Records of Slurm in which this field was cleaned, cut or left out",
        )

    def repaired(self, job_id: str, fields: Collection[str]) -> None:
        """Count the fields of one record, and log of which job it is."""
        for field in fields:
            self._repaired.add(1, {"field": field})
        _log.info("parts of a record are left out", job_id=job_id, fields=sorted(fields))

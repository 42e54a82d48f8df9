"""Prints charges as they are made, until that of a job.

Usage: prices.py JOB
"""

import os
import sys

from coplace.v1.pricing_pb2 import ChargeMade
from kafka import KafkaConsumer

for record in KafkaConsumer(
    "prices.charges",
    bootstrap_servers=os.environ["COPLACE_KAFKA_BOOTSTRAP"],
    auto_offset_reset="earliest",
    isolation_level="read_committed",
    consumer_timeout_ms=120_000,
):
    if dict(record.headers)["ce_type"] == b"coplace.v1.ChargeMade":
        charge = ChargeMade.FromString(record.value)
        print(charge.account, charge.job_id, charge.price_su)
        if charge.job_id == sys.argv[1]:
            break

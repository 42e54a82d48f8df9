"""The energy service's process on Kafka: `python -m services.energy`."""

from services.energy.app import stages
from shared.runtime.service import run_service
from shared.runtime.settings import settings

if __name__ == "__main__":
    run_service("energy", stages(settings()))

"""`python -m services.simulation`: plays resource managers and nodes on Kafka, then ends."""

from services.simulation.app import main

main()

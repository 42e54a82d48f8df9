"""`python -m services.energy.api`: projections over gRPC."""

from services.energy.api.app import main

main()

"""What several services need: the domain, models, scheduling, the catalogue, streams, processes."""

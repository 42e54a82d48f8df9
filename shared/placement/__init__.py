"""What decides for a region: a fold over its events. `services/placement` is its process."""

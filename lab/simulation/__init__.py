"""The placement simulator: logs and models in, schedules and their measures out."""

"""The placement simulator: logs and models in, schedules and what they come to out."""

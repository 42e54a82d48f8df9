"""Stages: units of work that read, decide and write, sans I/O, and that nothing stops for ever."""

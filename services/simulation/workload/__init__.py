"""Workloads for the emulator: published applications, a published model, real logs."""

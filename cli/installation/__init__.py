"""Coplace on one machine: servers and all services, started, shown and stopped as one."""

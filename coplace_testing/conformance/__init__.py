"""Checks a resource manager of somebody else: see docs/how-to/connect-a-resource-manager.md."""

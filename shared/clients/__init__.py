"""Clients of Coplace for programs beside a resource manager or on its nodes."""

"""Payloads as the domain's types, and back."""

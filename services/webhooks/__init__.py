"""Webhooks: what happens is posted to URLs that users and operators register."""

"""Stages and clients on Kafka."""

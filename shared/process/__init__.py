"""The life of a process: settings, logs, telemetry, health, graceful stop; no Kafka client."""

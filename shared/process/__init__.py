"""What every process needs: settings, logs, telemetry, health, graceful stop."""

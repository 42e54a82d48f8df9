"""The cluster emulator: it plays the resource managers in virtual time."""

"""Pure decisions that the online services and the simulator both run: numpy and the domain."""

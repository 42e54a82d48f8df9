"""What is really true of the emulated machines. Only the emulator reads it: services measure."""

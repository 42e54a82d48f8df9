"""What was learned, as parameters and pure functions of them: energy, power, slowdown."""

"""The two folds of the energy service: what applications do, and what nodes do to them."""

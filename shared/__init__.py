"""What several services need: the domain, models, scheduling, messaging and the runtime."""

"""What several services need: the domain, the policies, messaging and the runtime."""

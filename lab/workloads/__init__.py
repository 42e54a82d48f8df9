"""What comes from outside: published applications and models, real logs."""

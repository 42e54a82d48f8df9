"""What a job's nodes will draw, from its submission and from what was known when it came."""

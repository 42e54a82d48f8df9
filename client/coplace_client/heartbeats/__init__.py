"""What applications take to be measured by their own count of progress."""

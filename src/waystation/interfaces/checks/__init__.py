"""What `doctor` looks at."""

"""What visitors can ask for."""

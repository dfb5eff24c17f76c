"""What things cost, measured on the machine at hand."""

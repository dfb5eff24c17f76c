"""The four lines; none imports another."""

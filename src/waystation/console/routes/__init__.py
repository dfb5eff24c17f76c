"""The endpoints of the console's HTTP API."""

"""What sites and the proxies in front of them can ask for."""

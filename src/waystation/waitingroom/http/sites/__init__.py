"""Routes for sites and the proxies in front of them."""

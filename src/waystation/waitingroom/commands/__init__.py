"""`waystation room`: waiting rooms and their HTTP server."""

"""A small HTTP framework on ASGI: requests, answers, endpoints, OpenAPI."""

"""A small bookshop: orders that take weeks, and lose nothing on the way."""

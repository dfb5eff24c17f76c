"""What the answers say, for people: a page of its own and a few tables on the console."""

"""`python -m waystation` is the command `waystation`."""

from waystation.cli.root import run

run()

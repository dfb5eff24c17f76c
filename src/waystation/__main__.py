"""`python -m waystation` is the command `waystation`."""

from waystation.interfaces.cli.root import run

run()

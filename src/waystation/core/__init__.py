"""What every line shares: how work is claimed, kept, settled, repeated and measured."""

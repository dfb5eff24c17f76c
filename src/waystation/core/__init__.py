"""What all products share: how work is claimed, kept, settled, retried and measured."""

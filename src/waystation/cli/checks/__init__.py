"""The checks of `waystation doctor`."""

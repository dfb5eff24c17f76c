"""The algorithms of the spec, to the letter, with the flaws that ours must not have."""

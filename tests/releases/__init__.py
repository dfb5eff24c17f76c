"""What released versions have written, and that the present code goes on with it."""

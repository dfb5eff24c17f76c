"""`waystation routing`: jobs for the workers that can do them."""

"""The queues of the products, as the console shows them."""

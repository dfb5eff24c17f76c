"""Finding: which queues a store has, and where its products keep them."""

"""The connection to the store: addresses, options, clients."""

from waystation.core.store.connection.store import Store, StoreOptions, connect

__all__ = ["Store", "StoreOptions", "connect"]

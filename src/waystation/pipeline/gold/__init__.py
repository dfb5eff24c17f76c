"""Gold transforms: hourly figures, failures, the ledger, capacity, forecasts."""

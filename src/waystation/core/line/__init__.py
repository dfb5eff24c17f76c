"""What every job queue solves alike: the worker in the background, forecasts, metrics as text."""

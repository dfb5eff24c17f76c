"""The demo: a small ticket sale in which workers are killed and every ticket is counted."""

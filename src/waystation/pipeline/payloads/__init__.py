"""Payloads: what a job was (data, options, result, logs), kept by rule."""

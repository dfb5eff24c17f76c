"""What the commands of all products share: settings, store, telemetry, failures, options, lists."""

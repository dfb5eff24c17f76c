"""What operators do: actions on queues and jobs, and redrives of what failed alike."""

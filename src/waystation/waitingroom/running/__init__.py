"""Running a room: admission, upkeep, and the loops that do both."""

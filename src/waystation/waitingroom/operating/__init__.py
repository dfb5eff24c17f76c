"""Operating a room: control, schedule, lottery, codes, following and history."""

"""`waystation top` shows a queue in a terminal, and ends at a key."""

import os
import pty
import sys
import termios
from contextlib import suppress

from waystation.sync import Queue

with Queue("on-the-screen") as queue:
    queue.add("send", {})
child, screen = pty.fork()
if not child:
    os.execv(sys.executable, [sys.executable, "-m", "waystation", "top"])
termios.tcsetwinsize(screen, (40, 160))
shown = b""
with suppress(OSError):  # the terminal goes with the program
    while part := os.read(screen, 65_536):
        if b"on-the-screen" not in shown and b"on-the-screen" in (shown := shown + part):
            os.write(screen, b"q")
assert os.waitpid(child, 0)[1] == 0, shown

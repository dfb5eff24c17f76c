"""A scheduler of the routing line that crashes at the step it is told: `… URL NAME STEP`.

It ends by SIGKILL when it has taken so many steps: an odd one is sent and answered, an even one is
never sent. A step is one command to the store, whichever duty it belongs to.
"""

import asyncio
import itertools
import os
import signal
import sys
from typing import Any

from waystation.core.store.connection.pipe import Pipe
from waystation.routing import Scheduler, SchedulerOptions

OPTIONS = SchedulerOptions(tick=0.05, recover=0.2, mend=0.5, term=0.6)


def die_at(step: int) -> None:
    """Count the commands from here on, and end in the middle of them."""
    taken = itertools.count(1)
    send = Pipe.execute_command

    async def counted(self: Pipe, *args: Any) -> Any:
        this = next(taken)
        if this == step and step % 2 == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        reply = await send(self, *args)
        if this == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return reply

    Pipe.execute_command = counted


if __name__ == "__main__":
    url, name, last_step = sys.argv[1:4]
    die_at(int(last_step))
    asyncio.run(Scheduler(url, name=name, options=OPTIONS).run())

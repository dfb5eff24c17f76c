"""The reference page of the routing scripts, for clients in other languages."""

from collections.abc import Iterable
from typing import Any

from waystation.core.store.script import LuaScript
from waystation.routing.redis import scripts
from waystation.routing.redis.keys import RoutingKeys

_REPLIES = {
    "claim_job": "the job's JSON, or nil when nothing fits",
    "process_delayed": "how many jobs were moved",
    "process_cron": "a JSON list of `{jobId, cronExpression, timezone}`, `[]` when none is due",
    "release_lock": "1, or 0 when the worker does not own the lock",
    "dispatch": "the id that stands for each job, in order",
    "settle": "a code for each outcome (0 counts, -1 gone, -2 lease over, -6 held by another); id "
    "and JSON of each job claimed, in turn; milliseconds until a limit per minute ends, and until "
    "the next delayed job is due; the last wake-up; 1 when signatures are left to look at",
    "find_held": "id, token and JSON of each job held under one of the tokens, in turn",
    "extend": "the places, from 1, of the leases that are lost",
    "report_progress": "1, or the error `LEASE_LOST`",
    "beat": "how many of the workers were not known before",
    "look": "place, from 0, and a signature for each worker that there is something to do for, in "
    "turn; milliseconds until a limit per minute ends, and until the next delayed job is due; the "
    "last wake-up",
    "fits": "the places, from 0, of the profiles that fit; nil when no job of the signature waits",
    "leave": "1 when the worker was there",
    "cancel": "for each id 1, or 0 when there is nothing to stop",
    "requeue": "how many wait again",
    "purge": "how many were removed",
    "pause": "1, or 0 when it was paused already",
    "resume": "1, or 0 when it was not paused",
    "set_limit": "1",
    "recover": "the ids taken back, and the cursor to go on with",
    "recover_foreign": "the ids taken back, and the cursor to go on with",
    "release": "how many went on, and the two cursors to go on with",
    "fire_cron": "the ids of the jobs made",
    "reconcile": "the types whose count was wrong",
    "tidy": "the workers forgotten, and the cursor to go on with",
    "reindex": "how much was mended",
    "coverage": "for each signature: its text, the first id, how many wait, and what keeps them: "
    "how many workers fit, as JSON what the nearest one lacks, and its id; 1 when the type is "
    "paused; 1 when a limit is used up, and until when; the most at once and how many run; the "
    "most a minute and how many were started",
    "why": "status, data, result and reason of death; 1 when it is active, its worker and since "
    "when; its lock and for how many milliseconds; when it is due, when its schedule fires; its "
    "place in line, lane and signature, and what keeps it as in `coverage`; id and status of each "
    "job that it waits for",
}

_INTRO = """\
Every step of a queue is one script. Those of BridgeMQ's data model keep their names,
their keys and their arguments, so that a client in any language can load them and share a queue
with ours; the others are ours. `waystation routing script claim_job` prints one as it is loaded.

A client may also use plain commands: write `jobs:data:<id>` and push the id onto `jobs:waiting`.
The next step of ours enters it into the index. What it claims with a script of its own, taking the
lock and removing the id from the list, is respected.

A job belongs to its claimant for as long as `jobs:lock:<id>` lives. Whoever claims with `claim_job`
or with plain commands renews that lock with `EXPIRE`, `PEXPIRE` or `SET … XX EX`, and need not
register. A worker that is in `workers:active` must also keep its heartbeat alive: without it, its
jobs go back at once. A lock without an end is given 30 seconds.

Such a worker says how a job ended before it lets go of it: these commands, then `release_lock`.

It has completed:

```
SET jobs:result:<id> {"success": true, "data": …, "completedAt": …} EX 86400
SET jobs:status:<id> completed EX 86400
DEL jobs:data:<id>
```

It is tried again:

```
SET jobs:data:<id> {…, "attempts": one higher}
SET jobs:status:<id> delayed
ZADD jobs:delayed <milliseconds> <id>
```

It has failed for good:

```
SET jobs:data:<id> {…, "attempts": one higher}
SET jobs:result:<id> {"success": false, "error": {"name": …, "message": …}, …} EX 86400
SET jobs:status:<id> dead
LPUSH jobs:deadletter <id>
```

`release_lock` lets jobs go on that wait for one that has completed; after plain commands alone the
scheduler does so, within a minute."""

_MATCHING = """\
## What fits

What a job asks for stands in its `target`. A worker that has handlers for some types only is never
given others.

| the target gives | a worker fits when |
| --- | --- |
| nothing | always |
| `server` | that is its id; nothing else is looked at |
| `stack`, `capabilities` or `region` | every category given holds; one left out always does |
| … with `"mode": "any"`, or without | a category holds when the worker has one of its values |
| … with `"mode": "all"` | a category holds when the worker has all of its values |
| … with `"match": "category-any"` | one of the categories given holds |
| `avoid` | its id is not listed there |

A capability that a worker offers may hold `*` for anything and `?` for one character; one that a
job asks for is taken as it is written.

A job may bring limits along, as `"rateLimit": {"maxConcurrent": 5, "maxPerMinute": 100}`. They
count where its type has none in `ratelimit:config`."""


def page() -> str:
    """The page, written from the scripts' own headers."""
    made = "<!-- Written by `make docs` from the declarations in src; change those. -->"
    parts = ["# Scripts of routing", made, _INTRO, _MATCHING, "## BridgeMQ's own"]
    every = LuaScript.of(scripts.settle.package).values()
    parts += _named(every)
    parts.append("## BridgeMQ's own")
    parts += _sections(each for each in every if _is_bridge(each))
    parts.append("## Ours")
    parts += _sections(each for each in every if not _is_bridge(each))
    return "\n\n".join(parts) + "\n"


def _is_bridge(script: LuaScript[Any, Any]) -> bool:
    return "/bridge/" in script.script.where


def _named(scripts: Iterable[LuaScript[Any, Any]]) -> Iterable[str]:
    """What the names of keys and arguments stand for, each once."""
    keys = RoutingKeys().of("<job>", type="<type>")
    names = sorted({name for script in scripts for name in script.header.keys})
    yield "## Keys and arguments"
    yield (
        "Each script has its keys and arguments in the order in which it names them; an argument "
        "that is not in the second table is what its name says."
    )
    rows = [f"| `{name}` | `{getattr(keys, name)}` |" for name in names]
    yield "\n".join(["| key | is |", "| --- | --- |", *rows])
    rows = [f"| `{name}` | {meaning} |" for name, meaning in _ARGUMENTS.items()]
    yield "\n".join(["| argument | is |", "| --- | --- |", *rows])


def _sections(scripts: Iterable[LuaScript[Any, Any]]) -> Iterable[str]:
    for script in scripts:
        yield f"### {script.name}"
        args = [f"`{name}`" for name in script.header.args]
        if script.header.rest:
            args.append(f"`{script.header.rest}` (any number)")
        keys = [f"`{name}`" for name in script.header.keys]
        yield (
            f"{script.header.summary}\n\n- `KEYS`: {', '.join(keys) or 'none'}\n"
            f"- `ARGV`: {', '.join(args) or 'none'}\n- replies with {_REPLIES[script.name]}"
        )


_ARGUMENTS = {
    "namespace": "what every key starts with, `bridge` unless chosen otherwise",
    "now": "milliseconds since the epoch; empty for the server's own clock",
    "worker": "the worker's id",
    "stack": "a JSON list",
    "capabilities": "a JSON list; `*` stands for anything, `?` for one character",
    "region": "a JSON list",
    "lock_ttl": "seconds",
    "data_prefix": "`bridge:jobs:data:`",
    "lock_prefix": "`bridge:jobs:lock:`",
    "limit_prefix": "`bridge:ratelimit:concurrent:`",
    "batch": "the most that one call does",
    "token": "known to the holder of the claim alone",
    "lease_ms": "milliseconds that a claim lasts without renewal",
    "want": "the most jobs to claim",
    "profile": "JSON: server, stack, capabilities, region, types",
    "keep_s": "seconds that the end of a job is remembered",
    "term": "the number of the leader's term; a late one is refused with `NOT_LEADER`",
    "cursor": "0 at first, then what the last call replied",
    "id": "the job's id",
    "profiles": "a JSON list of profiles",
    "signature": "the text that all jobs with the same needs share",
    "ttl_ms": "milliseconds that a heartbeat lasts",
    "queue": "a job type",
}

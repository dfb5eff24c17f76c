"""Groups of a queue over the HTTP API."""

import msgspec

from tests.console.harness import ConsoleApi
from waystation.bullmq import Group, GroupSettings, Limit, Queue


async def test_groups_are_paused_and_limited(api: ConsoleApi) -> None:
    async with Queue("mail", api.store) as mail:
        await mail.add("send", group=Group("key", parent="acme"))
        paused = await api.act("mail", "pause-group", group="acme/key", dry_run=True)
        assert (paused["affected"], paused["done"]) == (1, False)
        await api.act("mail", "pause-group", group="acme/key")
        asked = {"concurrency": 3, "max": 10, "duration_s": 2, "weight": 2.5, "max_size": 7}
        await api.act("mail", "set-group", group="acme/key", **asked)
        await api.act("mail", "set-group", group="*", weight=4)
        key = Group("key", parent="acme")
        limits = GroupSettings(concurrency=3, rate=Limit(10, 2), weight=2.5, max_size=7)
        assert await mail.groups.settings(key) == msgspec.structs.replace(limits, paused=True)
        assert (await mail.groups.get("acme")).settings == GroupSettings(weight=4)

        await api.act("mail", "resume-group", group="acme/key")
        await api.act("mail", "reset-group", group="acme/key")
        await api.act("mail", "reset-group", group="*")
        for group in (key, "acme"):
            assert (await mail.groups.get(group)).settings == GroupSettings()

"""Every check, in the order a person reads them."""

import msgspec

from waystation.bullmq.redis.keys import QueueKeys
from waystation.bullmq.settings import BullmqSettings
from waystation.cli.checks.finding import Finding, Verdict, fail, warn
from waystation.cli.checks.java import java
from waystation.cli.checks.machine import embedded, python, spark
from waystation.cli.checks.server import server
from waystation.core.app import compose
from waystation.core.app.settings import StoreSettings
from waystation.core.errors import InvalidOption, StoreError
from waystation.core.settings.load import Settings
from waystation.core.store.connection import Store
from waystation.core.store.server import facts, require_suitable
from waystation.files.redis.keys import FileKeys
from waystation.files.settings import FilesSettings, layout
from waystation.pipeline.spark.java import programs
from waystation.routing.redis.keys import RoutingKeys
from waystation.routing.settings import RoutingSettings


class Examination(msgspec.Struct):
    """The findings of all checks, and the error that makes the store unusable, if any."""

    findings: list[Finding]
    trouble: StoreError | None = None

    @property
    def verdict(self) -> Verdict:
        """The worst that was found."""
        return max((finding.verdict for finding in self.findings), key=list(Verdict).index)


async def examine(settings: Settings) -> Examination:
    """Check the machine and the store that the settings name."""
    examination = Examination([python(), embedded(needed=settings[StoreSettings].url is None)])
    try:
        async with await compose.reach(settings[StoreSettings]) as store:
            examination.findings += server(await facts(store.redis))
            examination.findings += _hash_tags(store, settings)
            await require_suitable(store.redis)
    except StoreError as error:
        examination.trouble = error
        if examination.verdict is not Verdict.FAIL:
            examination.findings.append(fail("store", str(error)))
    examination.findings += [await java(programs()), spark()]
    return examination


def _hash_tags(store: Store, settings: Settings) -> list[Finding]:
    """The products that cannot be used on this cluster as the settings are."""
    products = {
        "bullmq": QueueKeys("queue", prefix=settings[BullmqSettings].prefix),
        "routing": RoutingKeys(settings[RoutingSettings].namespace),
        "files": FileKeys(layout(settings[FilesSettings])),
    }
    findings: list[Finding] = []
    for name, keys in products.items():
        try:
            store.require_one_slot(keys)
        except InvalidOption as error:
            findings.append(warn(name, str(error)))
    return findings

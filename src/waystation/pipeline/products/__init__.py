"""Products: streams, states and tables of each product, one module per product."""

from collections.abc import Iterator, Mapping

from waystation.core.errors import InvalidOption
from waystation.pipeline.products.bullmq import FACTS as BULLMQ
from waystation.pipeline.products.facts import FoldedTable, ProductFacts
from waystation.pipeline.products.files import FACTS as FILES
from waystation.pipeline.products.routing import FACTS as ROUTING
from waystation.pipeline.products.waitingroom import FACTS as WAITINGROOM
from waystation.pipeline.tables import Table

PRODUCTS: Mapping[str, ProductFacts] = {
    facts.product.value: facts for facts in (BULLMQ, ROUTING, FILES, WAITINGROOM)
}


def product_named(name: str) -> ProductFacts:
    """The facts of one product."""
    if name not in PRODUCTS:
        raise InvalidOption(f"product must be one of {', '.join(PRODUCTS)}, got {name!r}")
    return PRODUCTS[name]


def folded_tables() -> Iterator[FoldedTable]:
    """The tables with a row for each subject of a product."""
    for facts in PRODUCTS.values():
        yield from facts.folded


def product_tables() -> Iterator[Table]:
    """The declarations of all tables that only one product has."""
    for facts in PRODUCTS.values():
        yield from (each.table for each in facts.folded)
        yield from facts.tables

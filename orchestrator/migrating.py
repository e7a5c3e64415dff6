"""The schema of the stores, brought to this version before anybody opens them."""

from __future__ import annotations

from knowledge.errors import InvalidSetting
from knowledge.settings import KnowledgeSettings


async def migrate_now(settings: KnowledgeSettings) -> bool:
    """Bring the schema to this version's head; return whether it changed. With an owner running it is there already.

    Raises InvalidSetting where the stores are behind a server.
    """
    if settings.api_url is not None:
        raise InvalidSetting(
            "HARDWON_API_URL", "is set, and that server migrates its own schema: unset it to migrate here"
        )
    from knowledge.wiring import migrate_stores  # noqa: PLC0415 - heavy

    return await migrate_stores(settings)

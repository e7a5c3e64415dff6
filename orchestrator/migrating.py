"""Migration of the stores' schema to this version."""

from __future__ import annotations

from knowledge.errors import InvalidSetting
from knowledge.settings import KnowledgeSettings


async def migrate_now(settings: KnowledgeSettings) -> bool:
    """Migrate the schema to the head of this version; return whether it changed. A running owner has done so already.

    Raises InvalidSetting if the stores are behind a server.
    """
    if settings.api_url is not None:
        raise InvalidSetting(
            "HARDWON_API_URL", "is set, and that server migrates its own schema: unset it to migrate here"
        )
    from knowledge.wiring import migrate_stores  # noqa: PLC0415 - heavy

    return await migrate_stores(settings)

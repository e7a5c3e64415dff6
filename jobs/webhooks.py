"""Messages by webhook, signed as Standard Webhooks describes: something waits for a person, sinks or is dead.

Messages hold ids and counts, never stored texts. A message that was delivered, but whose delivery could not be
recorded, is sent again with its id, by which receivers know it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import urlsplit

import anyio
import httpx

from hardwon.errors import WebhookUnavailable
from hardwon.event_log import get_logger
from knowledge.documents.ingestion.url_policy import is_inside
from knowledge.ports import WebhookMessage
from knowledge.runtime.instrumentation import step
from knowledge.settings import KnowledgeSettings, decode_webhook_secret
from knowledge.wiring.open import Knowledge

log = get_logger(__name__)

GIVE_UP_AFTER: Final = timedelta(days=1)
FIRST_DELAY: Final = timedelta(seconds=30)
MAX_DELAY: Final = timedelta(hours=1)
TIMEOUT_SECONDS: Final = 10.0
"""Of a delivery, ours: Standard Webhooks advises receivers to answer within 15 to 30 s."""


async def tell_webhook(knowledge: Knowledge) -> int:
    """Notice what is to be told, and send what is due; return the number of messages delivered.

    Raises WebhookUnavailable while a message that was tried is not delivered.
    """
    settings, store = knowledge.settings, knowledge.webhooks
    if settings.webhook_url is None:
        return 0
    now = knowledge.stores.clock.now()
    await store.notice(now)
    results = [await send_webhook(knowledge, message, now) for message in await store.due(now)]
    failure = await store.last_failure()
    if failure is not None:
        raise WebhookUnavailable(f"the webhook is not delivered: {failure}")
    return results.count("delivered")


@step("send_webhook")
async def send_webhook(knowledge: Knowledge, message: WebhookMessage, now: datetime) -> str:
    """Send a message; return `delivered`, `failed` (it is sent again later), or `given_up`."""
    error = await _post(knowledge.settings, message, now)
    if error is None:
        await knowledge.webhooks.end(message.message_id, now, None)
        return "delivered"
    details = {"message_id": str(message.message_id), "attempts": message.attempts + 1, "reason": error}
    if now - message.noticed_at >= GIVE_UP_AFTER:
        log.error("webhook_given_up", **details)
        await knowledge.webhooks.end(message.message_id, now, error)
        return "given_up"
    log.warning("webhook_not_delivered", **details)
    delay = min(MAX_DELAY, FIRST_DELAY * 2 ** min(message.attempts, 10))
    await knowledge.webhooks.postpone(message.message_id, now + delay, error)
    return "failed"


async def _post(settings: KnowledgeSettings, message: WebhookMessage, now: datetime) -> str | None:
    """Post a message; return why it was not taken, None if it was."""
    url = settings.webhook_url or ""
    secret = settings.webhook_secret.get_secret_value() if settings.webhook_secret else ""
    if not secret:
        return "HARDWON_WEBHOOK_SECRET is not set"
    if not settings.webhook_inside:
        refusal = await _check_outside(url)
        if refusal is not None:
            return refusal
    body = make_body(message)
    headers = {"content-type": "application/json", **sign(secret, str(message.message_id), now, body)}
    try:
        async with httpx.AsyncClient(timeout=TIMEOUT_SECONDS, follow_redirects=False) as client:
            response = await client.post(url, content=body, headers=headers)
    except httpx.HTTPError as error:
        return f"no answer ({type(error).__name__})"
    return None if response.is_success else f"status {response.status_code}"


async def _check_outside(url: str) -> str | None:
    """Return why an address may not be called, None if it may."""
    parts = urlsplit(url)
    try:
        found = await anyio.getaddrinfo(parts.hostname or "", parts.port or 443)
    except OSError:
        return "its host is not known"
    if is_inside(str(address[4][0]) for address in found):
        return "an internal address: HARDWON_WEBHOOK_INSIDE=true allows it"
    return None


def make_body(message: WebhookMessage) -> bytes:
    """Return the JSON of a message."""
    subjects = [str(subject) for subject in message.subjects]
    data = {"workspace": message.workspace, "count": len(subjects), "ids": subjects}
    return json.dumps({"type": message.kind, "timestamp": message.noticed_at.isoformat(), "data": data}).encode()


def sign(secret: str, message_id: str, now: datetime, body: bytes) -> dict[str, str]:
    """Return the three headers of Standard Webhooks: an HMAC-SHA256 over id, timestamp and body, in base64."""
    timestamp = str(int(now.timestamp()))
    signed = b".".join((message_id.encode(), timestamp.encode(), body))
    digest = hmac.new(decode_webhook_secret(secret), signed, hashlib.sha256).digest()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }

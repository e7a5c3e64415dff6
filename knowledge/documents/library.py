"""Adding documents to knowledge bases and taking them away."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from knowledge.documents.access import AccessPolicy, Base, Permission, Principal, Readers, Scope
from knowledge.documents.models import Document, DocumentId, DocumentType, NewDocument
from knowledge.documents.parsing import LONGEST_NAME, MOST_TAGS, Unreadable, converts, described, is_pointer, read
from knowledge.documents.ports import Converter, DocumentStore, Parsed, Received
from knowledge.errors import InvalidInput, NoAccess
from knowledge.forms import as_id, as_integer, check_texts
from knowledge.logs import get_logger
from knowledge.redaction import redact

log = get_logger(__name__)

MAX_BYTES: Final = 15_000_000
"""A larger file is refused: what it says is hardly read, and its lines would crowd out those of others."""

_READER: Final = "4"
"""Goes into the hash of what was read: raised when files are read otherwise than before."""

_LONGEST_URI: Final = 1000
_LONGEST_PRINCIPAL: Final = 200
_MOST_LISTED: Final = 2**31 - 1
_PAGE: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """What came of a document that was added: as it is now, and whether it says anything new."""

    document: Document
    changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentLibrary:
    """Puts documents into partitions, lists them, and takes them away for good. Nothing is indexed here."""

    documents: DocumentStore
    access: AccessPolicy
    converter: Converter
    redaction: bool = True
    max_bytes: int = MAX_BYTES
    case_retention: timedelta = timedelta(0)

    async def add(self, new: NewDocument, scope: Scope) -> Added:
        """Read a file, take secrets out, and keep it to be indexed. A file that cannot be read is kept as failed.

        The same uri again is a newer version; the same content changes nothing. What is told of a file is kept without
        secrets, too. Raises NoAccess, InvalidInput, Conflict for a closed case.
        """
        partition = scope.writable()
        _check(new)
        told = _without_secrets(new) if self.redaction else new
        _check(told)
        known = await self.documents.known(partition, told.uri)
        converted = converts(new.uri, new.content)
        parsed, refused = (None, None) if converted else await self._tried(new)
        content_hash = _hash(told, parsed, redaction=self.redaction)
        if known is not None and known[1] == content_hash:
            return Added(document=await self.documents.named(partition, told.uri), changed=False)
        if converted:  # which takes a while: only what changed
            parsed, refused = await self._tried(new)
        received = Received(
            uri=told.uri,
            title=told.title,
            category=told.category,
            tags=told.tags,
            link=told.link,
            mark=new.mark,
            source_id=new.source_id,
            content_hash=content_hash,
            parsed=parsed,
            refused=refused,
        )
        document, changed = await self.documents.put(partition, received)
        log.info("document_added", document_id=str(document.document_id), changed=changed, status=document.status)
        return Added(document=document, changed=changed)

    async def _tried(self, new: NewDocument) -> tuple[Parsed | None, str | None]:
        """Return what was read of a file, or why it cannot be read."""
        try:
            return await self._read(new), None
        except Unreadable as error:
            return None, redact(str(error)).text if self.redaction else str(error)

    async def _read(self, new: NewDocument) -> Parsed:
        if len(new.content) > self.max_bytes:
            size, most = len(new.content) // 1_000_000, self.max_bytes // 1_000_000
            raise Unreadable(f"it has {size} MB, more than the {most} MB that a document may have")
        if is_pointer(new.content):
            raise Unreadable("it is a pointer of Git LFS: what it stands for lies elsewhere, and is not fetched")
        if not converts(new.uri, new.content):
            return await asyncio.to_thread(read, new.uri, new.content, redacting=self.redaction)
        converted = await self.converter.convert(new.uri, new.content)
        if not converted.text.strip():
            raise Unreadable("there is no text in it; scanned pages are not read")
        kind = DocumentType.MARKDOWN if converted.markdown else DocumentType.TEXT
        return await asyncio.to_thread(
            described,
            converted.text,
            kind,
            redacting=self.redaction,
            title=converted.title,
            pages=converted.pages,
            notes=converted.notes,
        )

    def kept_as(self, uri: str) -> str:
        """Return the uri that a file is kept under."""
        return redact(uri).text if self.redaction else uri

    async def listed(self, scope: Scope, *, limit: int = _PAGE, after: str | None = None) -> list[Document]:
        """Return documents of a scope with their states, ascending by uri within a partition."""
        if after:
            _check_text("after", after, _LONGEST_URI)
        limit = as_integer("limit", limit, least=0, most=_MOST_LISTED)
        found: list[Document] = []
        for partition in scope.partitions:
            found += await self.documents.listed(partition, limit=limit, after=after)
        return found[:limit]

    async def delete(self, scope: Scope, document_ids: Collection[DocumentId]) -> int:
        """Delete documents for good; nothing shows them any more once this returns. Returns how many there were."""
        ids = [DocumentId(as_id("document_ids", each)) for each in document_ids]
        return await self.documents.hide(scope.writable(), ids)

    async def close_case(self, principal: Principal, case_id: str) -> int:
        """Close a case: its documents go, at once or after the retention of the settings, and it takes no more."""
        scope = await self.access.scope(principal, "case", case_id, permission=Permission.WRITE)
        return await self.documents.close(scope.writable(), keep_for=self.case_retention)

    async def delete_user(self, principal: Principal, user_id: str) -> int:
        """Delete the whole knowledge base of a user."""
        scope = await self.access.scope(principal, "user", user_id, permission=Permission.WRITE)
        return await self.documents.forget_partition(scope.writable())

    async def retry(self, scope: Scope) -> int:
        """Have documents indexed now that failed or were put off; return how many."""
        return await self.documents.retry(scope.writable())

    async def grant(self, by: Principal, kb: str, scope_id: str, to: str) -> None:
        """Give a principal access to a case or a team. Raises NoAccess unless an administrator does."""
        _check_text("principal", to, _LONGEST_PRINCIPAL)
        await self.access.grants.grant(self._granted(by, kb, scope_id).name, scope_id, to)

    async def revoke(self, by: Principal, kb: str, scope_id: str, from_: str) -> bool:
        """Take access away, from the next question on; return whether there was any."""
        _check_text("principal", from_, _LONGEST_PRINCIPAL)
        return await self.access.grants.revoke(self._granted(by, kb, scope_id), scope_id, from_)

    async def granted(self, by: Principal, kb: str, scope_id: str) -> list[str]:
        """Return who was given access."""
        return await self.access.grants.granted(self._granted(by, kb, scope_id).name, scope_id)

    def _granted(self, by: Principal, kb: str, scope_id: str) -> Base:
        base = self.access.base(kb)
        base.partition(scope_id)
        if base.readers not in {Readers.CASE, Readers.MEMBERS}:
            raise InvalidInput("kb", f"nobody is given access to a {kb} knowledge base")
        if not by.admin:
            raise NoAccess("only an administrator gives and takes access")
        return base


def _without_secrets(new: NewDocument) -> NewDocument:
    """Return a file with what is told of it redacted."""
    return replace(
        new,
        uri=redact(new.uri).text,
        title=new.title and redact(new.title).text,
        category=new.category and redact(new.category).text,
        tags=tuple(redact(tag).text for tag in new.tags),
        link=new.link and redact(new.link).text,
    )


def _hash(new: NewDocument, parsed: Parsed | None, *, redaction: bool) -> str:
    """Return the hash of a file and of all that is told of it or changes how it is read.

    Of a text as it is kept: from the hash of the whole, and all of it but a secret, the secret could be guessed.
    """
    told = [_READER, redaction, new.uri, new.title, new.category, new.tags, new.link]
    content = new.content if parsed is None else parsed.text.encode("utf-8", "surrogatepass")
    return hashlib.sha256(json.dumps(told).encode() + b"\0" + content).hexdigest()


def _check_text(field: str, text: str, longest: int) -> None:
    check_texts(**{field: text})
    if not text.strip() or len(text) > longest or not text.isprintable():
        raise InvalidInput(field, f"give 1 to {longest} printable characters")


def _check(new: NewDocument) -> None:
    if not isinstance(new.content, bytes):
        raise InvalidInput("content", f"must be the bytes of a file, not {type(new.content).__name__}")
    tags: object = new.tags
    if isinstance(tags, str):
        raise InvalidInput("tags", "must be several texts, not one")
    for field, text, longest in (
        ("uri", new.uri, _LONGEST_URI),
        ("title", new.title, LONGEST_NAME),
        ("category", new.category, LONGEST_NAME),
        ("link", new.link, 2 * _LONGEST_URI),
        *(("tags", tag, LONGEST_NAME) for tag in new.tags),
    ):
        if text is not None:
            _check_text(field, text, longest)
    if len(new.tags) > MOST_TAGS:
        raise InvalidInput("tags", f"give at most {MOST_TAGS}")
    if new.uri.startswith("/") or ".." in new.uri.split("/") or "\\" in new.uri or not new.uri.rsplit("/", 1)[-1]:
        raise InvalidInput("uri", "name the file by a path without a leading '/', '..' or '\\'")
    if new.link is not None and not new.link.startswith(("https://", "http://", "file://")):
        raise InvalidInput("link", "give an http://, https:// or file:// address")

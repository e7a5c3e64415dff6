"""Parts of a file that is a zip archive of XML, read within limits."""

from __future__ import annotations

import io
import posixpath
import zipfile
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from lxml import etree

MAX_PART: Final = 200_000_000


def parse_xml(content: bytes) -> etree._Element:
    """Return the root of a part. Raises ValueError: entities are not read, and depth is limited to 256."""
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True, remove_pis=True, huge_tree=False
    )
    try:
        root = etree.fromstring(content, parser)
    except etree.XMLSyntaxError as error:
        raise ValueError(f"broken XML: {str(error)[:100]}") from None
    if root is None:
        raise ValueError("broken XML")
    if root.getroottree().docinfo.internalDTD is not None:
        raise ValueError("it has a document type of its own")
    return root


@dataclass(slots=True)
class Package:
    """An archive, of which at most MAX_PART bytes are unpacked in total."""

    archive: zipfile.ZipFile
    left: int = MAX_PART
    names: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def open(cls, content: bytes) -> Package:
        archive = zipfile.ZipFile(io.BytesIO(content))
        return cls(archive, names=frozenset(archive.namelist()))

    def read(self, name: str) -> bytes:
        """Return a part. Raises KeyError, ValueError."""
        with self.archive.open(name) as part:
            content = part.read(self.left + 1)
        self.left -= len(content)
        if self.left < 0:
            raise ValueError("it unpacks to too much")
        return content

    def root(self, name: str) -> etree._Element | None:
        """Return the root of a part, None if there is none."""
        return parse_xml(self.read(name)) if name in self.names else None

    def relations(self, part: str) -> dict[str, tuple[str, str]]:
        """Return by id the kind and the target of what a part of an Office file refers to."""
        folder, name = posixpath.split(part)
        root = self.root(f"{folder}/_rels/{name}.rels" if folder else f"_rels/{name}.rels")
        found = {}
        for each in root if root is not None else ():
            target, kind = each.get("Target") or "", (each.get("Type") or "").rpartition("/")[2]
            if each.get("TargetMode") != "External":
                target = posixpath.normpath(posixpath.join("/" + folder, unquote(target))).lstrip("/")
            found[each.get("Id") or ""] = (kind, target)
        return found

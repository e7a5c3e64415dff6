"""The collections and aliases of a folder, and the options that a stand-in server is started with."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

from tests.support.qdrant.collection import Collection, GraphPolicy
from tests.support.qdrant.conversion import Body, Refused
from tests.support.qdrant.limits import Access

VERSION = "1.18.3"
"""Of the server whose answers are in the case files."""
MAX_BODY_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Options:
    """The configuration of a stand-in server.

    `compress` answers compressed where the request accepts it, as a real server does (S5). `default_shards` is for
    collections that do not say how many they want: by default one, and one for each node of a cluster.
    """

    graphs: GraphPolicy = field(default_factory=GraphPolicy)
    access: Access = field(default_factory=Access)
    max_body_bytes: int = MAX_BODY_BYTES
    version: str = VERSION
    compress: bool = False
    default_shards: int | None = None

    def to_json(self) -> str:
        """Return them as an argument of a command."""
        return json.dumps(asdict(self))

    @classmethod
    def of_json(cls, text: str) -> Self:
        """Read them from an argument of a command."""
        given = json.loads(text)
        access = given.pop("access")
        access["collections"] = tuple(access["collections"])
        return cls(graphs=GraphPolicy(**given.pop("graphs")), access=Access(**access), **given)


class Storage:
    """Collections of one folder. One instance per folder."""

    def __init__(self, folder: Path, policy: GraphPolicy) -> None:
        self.folder = folder
        self.policy = policy
        folder.mkdir(parents=True, exist_ok=True)
        self.collections = {
            path.parent.name: Collection.load(path.parent, policy) for path in folder.glob("*/collection.json")
        }
        self._aliases_file = folder / "aliases.json"
        self.aliases: dict[str, str] = json.loads(self._aliases_file.read_text()) if self._aliases_file.exists() else {}

    def close(self) -> None:
        """Flush and close every collection."""
        for collection in self.collections.values():
            collection.close()
        self.collections.clear()

    def real(self, name: str) -> str:
        """Return the collection's name behind an alias."""
        return self.aliases.get(name, name)

    def find(self, name: str) -> Collection:
        """Return a collection by its name or an alias."""
        try:
            return self.collections[self.real(name)]
        except KeyError:
            raise Refused(404, f"Not found: Collection `{name}` doesn't exist!") from None

    def create(self, name: str, body: Body, *, default_shards: int) -> Collection:
        """Make a collection."""
        self._check_absent(name)
        if name in self.aliases:
            text = f"Wrong input: Can't create collection with name {name}. Alias with the same name already exists"
            raise Refused(400, text)
        made = Collection.create(self.folder / name, body, self.policy, default_shards=default_shards)
        self.collections[name] = made
        return made

    def _check_absent(self, name: str) -> None:
        if name in self.collections:
            raise Refused(409, f"Wrong input: Collection `{name}` already exists!")

    def drop(self, name: str) -> bool:
        """Delete a collection and the aliases of it."""
        collection = self.collections.pop(name, None)
        if collection is None:
            return False
        collection.close()
        shutil.rmtree(collection.folder)
        self._set_aliases({alias: real for alias, real in self.aliases.items() if real != name})
        return True

    def change_aliases(self, actions: list[Body]) -> None:
        """Change aliases, all or none."""
        changed = dict(self.aliases)
        for action in actions:
            match action:
                case {"delete_alias": {"alias_name": alias}}:
                    changed.pop(alias, None)
                case {"create_alias": {"alias_name": alias, "collection_name": name}}:
                    self.find(name)
                    self._check_absent(alias)
                    changed[alias] = name
                case _:
                    raise Refused(400, f"not supported: {action}")
        self._set_aliases(changed)

    def _set_aliases(self, aliases: dict[str, str]) -> None:
        self.aliases = aliases
        self._aliases_file.write_text(json.dumps(aliases))

    def optimize(self) -> bool:
        """Build all graphs that are due; return whether there were any."""
        built = [collection.optimize() for collection in self.collections.values()]
        return any(built)

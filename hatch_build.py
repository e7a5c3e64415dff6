"""Keep files that git does not track out of a wheel and an archive of the source: notes, keys, data of a try."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class TrackedFilesHook(BuildHookInterface):  # type: ignore[type-arg] # its parameter is hatchling's own
    """Excludes from a build what a checkout holds beside its tracked files; an unpacked archive has no others."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - the hook's interface
        """Add the untracked files to those that the build leaves out."""
        if version == "editable" or not (Path(self.root) / ".git").exists():
            return
        listing = ["git", "ls-files", "-z", "--others", "--exclude-standard"]
        found = subprocess.run(listing, cwd=self.root, capture_output=True, check=True)  # noqa: S603 - our own arguments
        untracked = [name for name in found.stdout.decode(errors="surrogateescape").split("\0") if name]
        patterns = [f"/{name.translate(_ESCAPED)}" for name in untracked]
        self.build_config.target_config.setdefault("exclude", []).extend(patterns)


_ESCAPED = str.maketrans({character: f"\\{character}" for character in "\\*?[]!# "})
"""Characters that mean something in a line of .gitignore, which is what a pattern is."""

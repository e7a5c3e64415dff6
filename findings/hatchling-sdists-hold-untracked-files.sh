#!/usr/bin/env bash
# One would guess: a source archive of hatchling, which reads .gitignore, holds what git tracks.
# True: it holds whatever .gitignore does not name, so a note, a dump or a key file that lies beside the sources, never added
# to git, is packed and published; so is one in a package folder, in the wheel as well. A build hook can leave them out: what it
# appends to `build_config.target_config["exclude"]` in `initialize` is still read, since the patterns are compiled later.
# hatchling 1.33.0, 2026-11-28.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check hatchling==1.33.0
mkdir -p "$folder/project/shop"
cd "$folder/project"
cat > pyproject.toml <<'TOML'
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "shop"
version = "1.0"
TOML
touch shop/__init__.py
printf 'ignored.txt\ndist/\n' > .gitignore
git init --quiet && git add --all
touch ignored.txt notes.txt shop/dump.json
names() { tar tzf dist/*.tar.gz | sed 's,^[^/]*/,,' | sort | tr '\n' ' '; python3 -m zipfile -l dist/*.whl | grep -o "^shop/[a-z_.]*" | sort | tr '\n' ' '; }
build() { rm -rf dist; "$folder/venv/bin/python" -m hatchling build > "$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }; }

"$folder/venv/bin/pip" list --disable-pip-version-check 2> /dev/null | grep hatchling
build
as_it_is=$(names)
echo "without a hook: $as_it_is"
printf '[tool.hatch.build.hooks.custom]\n' >> pyproject.toml
cat > hatch_build.py <<'PY'
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Hook(BuildHookInterface):
    def initialize(self, version, build_data):
        self.build_config.target_config.setdefault("exclude", []).extend(["/notes.txt", "/shop/dump.json"])
PY
build
hooked=$(names)
echo "with the hook:  $hooked"
[ "$as_it_is" = ".gitignore PKG-INFO notes.txt pyproject.toml shop/__init__.py shop/dump.json shop/__init__.py shop/dump.json " ] \
  && [ "$hooked" = ".gitignore PKG-INFO hatch_build.py pyproject.toml shop/__init__.py shop/__init__.py " ] \
  || { echo "the behaviour has changed"; exit 1; }

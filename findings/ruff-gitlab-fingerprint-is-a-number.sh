#!/usr/bin/env bash
# One would guess: the fingerprint in a GitLab code quality report identifies a finding, so that what is mended is what
# has no fingerprint in the later report.
# True: ruff hashes rule, file and, where that was seen before, a number; not the text. After the first of two unused
# imports is removed, the second one has the first one's fingerprint, and GitLab shows the wrong one as fixed.
# ruff 0.17.6, 2026-11-27. (pylint-gitlab 2.1.1 does the same; flake8-gl-codeclimate 0.2.2 hashes the line.)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check ruff==0.17.6
cd "$folder"
check() { venv/bin/ruff check --no-cache --select F401 --output-format gitlab a.py > "$1" || true; }
printf 'import os\nimport sys\n' > a.py
check before.json
printf 'import sys\n' > a.py
check after.json
python3 - <<'PY'
import json

before, after = ({row["fingerprint"]: row["description"] for row in json.load(open(f"{run}.json"))} for run in ("before", "after"))
print("before:", before)
print("after: ", after)
gone = [text for fingerprint, text in before.items() if fingerprint not in after]
print("gone by fingerprint:", gone)
assert len(gone) == 1 and "sys" in gone[0], "the fingerprint follows the text now"
PY

#!/usr/bin/env bash
# One would guess: a field of type `datetime | date` reads the text "2025-10-19" in one way, wherever the text comes from.
# True: from JSON (`validate_json`) it is a date, from Python (`validate_python`, as arguments of a tool or a dict are read)
# it is a datetime at midnight; so the same model means a whole day at one door and a moment at the other. The other order,
# `date | datetime`, reads a text "2025-10-19T00:00:00" from Python as a date: the time is dropped.
# Matters where a tool call or a query string gives "until": a day that ends at its midnight loses 24 hours.
# pydantic 2.14.3, 2026-11-27.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pydantic==2.14.3
"$folder/venv/bin/python" - <<'PY'
from datetime import date, datetime

import pydantic
from pydantic import TypeAdapter

print("pydantic", pydantic.VERSION)
day, midnight = "2025-10-19", "2025-10-19T00:00:00"
moment_first, day_first = TypeAdapter(datetime | date), TypeAdapter(date | datetime)
seen = {
    "datetime | date, a day from Python": moment_first.validate_python(day),
    "datetime | date, a day from JSON": moment_first.validate_json(f'"{day}"'),
    "date | datetime, a moment from Python": day_first.validate_python(midnight),
    "date | datetime, a moment from JSON": day_first.validate_json(f'"{midnight}"'),
}
for case, value in seen.items():
    print(f"{case}: {value!r}")
assert [type(value) for value in seen.values()] == [datetime, date, date, datetime], "the behaviour has changed"
PY

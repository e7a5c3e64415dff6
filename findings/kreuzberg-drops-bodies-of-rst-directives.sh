#!/usr/bin/env bash
# One would guess: a converter that says it reads reStructuredText keeps the text below a directive, or says that it does not.
# True: the body of `.. note::` is kept, but `.. option::`, `.. confval::`, `.. py:function::`, `.. versionadded::` and
# `.. deprecated::` are dropped with their names and whole bodies, and no warning is set; the text around them stays. Sphinx
# manuals put most of what a reader asks (options, defaults, since which version) into such bodies, so a search over the
# converted text finds the headings and none of the answers.
# kreuzberg 4.10.4, 2026-11-27.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check kreuzberg==4.10.4
"$folder/venv/bin/python" - <<'PY'
import kreuzberg

BODIES = {
    "note": ".. note::\n\n   Ask the owner of the mill first.\n",
    "option": ".. option:: --retries N\n\n   Try again three times before giving up.\n",
    "confval": ".. confval:: pool_size\n\n   Ten connections are kept by default.\n",
    "py:function": ".. py:function:: drain(pool)\n\n   Wait until every job has ended.\n",
    "deprecated": ".. deprecated:: 3.0\n\n   Use the queue of the worker instead.\n",
    "versionadded": ".. versionadded:: 2.1\n\n   The pool is emptied when the worker ends.\n",
}
AROUND = "The queue holds 500 jobs."

print("kreuzberg", kreuzberg.__version__)
kept = {}
for name, directive in BODIES.items():
    text = f"Settings\n========\n\n{directive}\nLimits\n------\n\n{AROUND}\n"
    found = kreuzberg.extract_bytes_sync(text.encode(), "text/x-rst")
    body = directive.strip().splitlines()[-1].strip()
    kept[name] = body in found.content
    warned = bool(getattr(found, "processing_warnings", None))
    print(f"{name}: body kept {kept[name]}, text around it kept {AROUND in found.content}, warned {warned}")
    assert AROUND in found.content and not warned, "the behaviour has changed"
assert [name for name, there in kept.items() if there] == ["note"], "the behaviour has changed"
PY

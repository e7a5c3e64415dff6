#!/usr/bin/env bash
# One would guess: the cause of openai's APIConnectionError is an error of httpx, as documentation and older code have it, so that
# `isinstance(error.__cause__, httpx.ConnectError)` tells a server that is not there from a connection that was cut.
# True: the client is built on httpx2, whose classes have the same names and are no subclasses of httpx's: the test is never true,
# and no import fails where httpx is installed for something else.
# Matters where a refused connection is to be retried otherwise than a request that was cut while it was answered.
# openai 3.54.0, httpx 0.28.1, 2026-11-27.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check openai==3.54.0 httpx==0.28.1
"$folder/venv/bin/python" - <<'PY'
import httpx
import openai

client = openai.OpenAI(api_key="none", base_url="http://127.0.0.1:9/v1", max_retries=0)
try:
    client.embeddings.create(model="m", input=["a text"])
except openai.APIConnectionError as error:
    cause = error.__cause__
print("openai", openai.__version__, "httpx", httpx.__version__)
print("cause:", f"{type(cause).__module__}.{type(cause).__name__}", "- an httpx.ConnectError:", isinstance(cause, httpx.ConnectError))
assert type(cause).__name__ == "ConnectError", "the behaviour has changed"
assert not isinstance(cause, httpx.ConnectError), "the behaviour has changed"
PY

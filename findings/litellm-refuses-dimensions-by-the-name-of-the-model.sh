#!/usr/bin/env bash
# One would guess: LiteLLM hands `dimensions` on to a server with OpenAI's protocol, which knows if its model takes it; and where
# that server refuses a request, the error repeats what it said.
# True: unless the model's name contains "text-embedding-3", LiteLLM refuses `dimensions` itself, before any request is sent, with a
# sentence that says the opposite ("not supported for OpenAI `text-embedding-3` and later models"); and of a 422 with a `detail`
# list, the form of FastAPI, nothing is left but "Error code: 422".
# Matters to callers that learn from a refusal which parameter or input was wrong.
# litellm 1.108.7, 2026-11-27.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check litellm==1.108.7
LITELLM_LOCAL_MODEL_COST_MAP=True "$folder/venv/bin/python" - <<'PY'
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version

import litellm

litellm.suppress_debug_info = True
seen = []


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        seen.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        refused = seen[-1]["input"] == ["bad"]
        detail = [{"loc": ["body", "input", 0], "msg": "tokenizer error", "type": "value_error"}]
        row = {"object": "embedding", "index": 0, "embedding": [1.0]}
        body = {"detail": detail} if refused else {"object": "list", "model": "m", "data": [row], "usage": {"prompt_tokens": 1, "total_tokens": 1}}
        self.send_response(422 if refused else 200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_):
        pass


def embed(model, text, **more):
    try:
        litellm.embedding(model=f"openai/{model}", input=[text], api_key="none", num_retries=0,
                          api_base=f"http://127.0.0.1:{server.server_port}/v1", **more)
    except Exception as error:
        return " ".join(str(error).split())
    return "answered"


server = HTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print("litellm", version("litellm"))
plain = embed("bge", "a text", dimensions=1)
sent = len(seen)
named = embed("my-text-embedding-3", "a text", dimensions=1)
refused = embed("bge", "bad")
print("dimensions, bge:", plain, "- requests sent:", sent)
print("dimensions, my-text-embedding-3:", named)
print("422 with a detail list:", refused, flush=True)
assert "Setting dimensions is not supported" in plain and sent == 0, "the behaviour has changed"
assert named == "answered", "the behaviour has changed"
assert "422" in refused and "tokenizer error" not in refused, "the behaviour has changed"
os._exit(0)  # its threads are no part of this
PY

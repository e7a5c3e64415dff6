#!/usr/bin/env bash
# One would guess: `client.embeddings.create(model=..., input=...)` sends `model` and `input`, and leaves the encoding to the server.
# True: it sends `"encoding_format": "base64"` as well, and decodes the answer. A server that refuses the parameter refuses every
# request of the client, and there is no value of `encoding_format` that leaves it out; `client.post("/embeddings", ...)` does.
# Matters with servers that validate strictly ("extra inputs are not permitted").
# openai 3.54.0, 2026-11-27.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check openai==3.54.0
"$folder/venv/bin/python" - <<'PY'
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import openai

seen = []


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        seen.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        body = json.dumps({"object": "list", "model": "m", "data": [{"object": "embedding", "index": 0, "embedding": [1.0]}]})
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = openai.OpenAI(api_key="none", base_url=f"http://127.0.0.1:{server.server_port}/v1")
client.embeddings.create(model="m", input=["a text"])
client.embeddings.create(model="m", input=["a text"], encoding_format=openai.omit)
client.post("/embeddings", cast_to=object, body={"model": "m", "input": ["a text"]})
print("openai", openai.__version__)
for case, body in zip(("told nothing", "told to omit it", "client.post"), seen, strict=True):
    print(f"{case}: {body}")
assert [body.get("encoding_format") for body in seen] == ["base64", "base64", None], "the behaviour has changed"
PY

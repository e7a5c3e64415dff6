#!/usr/bin/env bash
# One would guess: a hook on SessionEnd runs when a one-shot run of Qwen Code has ended, as one on SessionStart runs at
# its start, and as it does in Claude Code, whose names of events these are.
# True: SessionStart, UserPromptSubmit and Stop run, SessionEnd never does, with exit code 0 and no word of it. What a hook
# is to do at the end of a session belongs to Stop, which runs at the end of each turn.
# qwen-code 0.24.4, 2026-11-27.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
npm install --silent --prefix "$folder/npm" --no-audit --no-fund @qwen-code/qwen-code@0.24.4 > "$folder/npm.log" 2>&1
cat > "$folder/model.py" <<'PY'
import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer


class Model(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        base = {"id": "c1", "created": 1, "model": "scripted"}
        message = {"role": "assistant", "content": "done"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        if body.get("stream"):
            base["object"] = "chat.completion.chunk"
            parts = [
                {**base, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
                {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage},
            ]
            data = "".join(f"data: {json.dumps(part)}\n\n" for part in parts) + "data: [DONE]\n\n"
        else:
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            data = json.dumps({**base, "object": "chat.completion", "choices": [choice], "usage": usage})
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if body.get("stream") else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data.encode())


server = HTTPServer(("127.0.0.1", 0), Model)
with open(sys.argv[1], "w") as file:
    file.write(str(server.server_port))
server.serve_forever()
PY
python3 "$folder/model.py" "$folder/port" &
server=$!
until [ -s "$folder/port" ]; do sleep 0.1; done
mkdir -p "$folder/home/.qwen" "$folder/project"
python3 - "$folder" <<'PY'
import json
import sys

folder = sys.argv[1]
events = ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd")
hook = lambda event: [{"hooks": [{"type": "command", "command": f"cat > /dev/null; echo {event} >> {folder}/fired"}]}]
with open(f"{folder}/home/.qwen/settings.json", "w") as file:
    json.dump({"hooks": {event: hook(event) for event in events}}, file)
PY
cd "$folder/project"
HOME="$folder/home" OPENAI_BASE_URL="http://127.0.0.1:$(cat "$folder/port")/v1" OPENAI_API_KEY=none OPENAI_MODEL=scripted \
    timeout 120 "$folder/npm/node_modules/.bin/qwen" --yolo --auth-type openai -m scripted "say that you are done" < /dev/null
sleep 3
echo "qwen-code $("$folder/npm/node_modules/.bin/qwen" --version)"
echo "hooks that ran: $(sort -u "$folder/fired" | tr '\n' ' ')"
grep -qx Stop "$folder/fired"
grep -qx SessionStart "$folder/fired"
! grep -qx SessionEnd "$folder/fired"

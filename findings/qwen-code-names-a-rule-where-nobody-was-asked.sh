#!/usr/bin/env bash
# One would guess: "permission was declined. Matching deny rule: ..." in a transcript of Qwen Code means that somebody has
# written such a rule, in the settings or on the command line.
# True: with no settings and no such option, a run without a terminal denies commands and edits with these words; the rule
# is the name of the tool alone. A person's own rule usually has an argument, as in "run_shell_command(rm *)".
# qwen-code 0.24.4, 2026-11-27.
set -euo pipefail
server=
folder=$(mktemp -d)
trap '[ -z "$server" ] || kill "$server"; rm -rf "$folder"' EXIT
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
        message, reason = {"role": "assistant", "content": "done"}, "stop"
        if body.get("tools") and not any(each["role"] == "tool" for each in body["messages"]):
            arguments = json.dumps({"command": "touch a.txt", "description": "make a file", "is_background": False})
            function = {"name": "run_shell_command", "arguments": arguments}
            calls = [{"index": 0, "id": "call_1", "type": "function", "function": function}]
            message, reason = {"role": "assistant", "content": None, "tool_calls": calls}, "tool_calls"
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        if body.get("stream"):
            base["object"] = "chat.completion.chunk"
            parts = [
                {**base, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
                {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage},
            ]
            data = "".join(f"data: {json.dumps(part)}\n\n" for part in parts) + "data: [DONE]\n\n"
        else:
            choice = {"index": 0, "message": message, "finish_reason": reason}
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
mkdir -p "$folder/home" "$folder/project"
cd "$folder/project"
HOME="$folder/home" OPENAI_BASE_URL="http://127.0.0.1:$(cat "$folder/port")/v1" OPENAI_API_KEY=none OPENAI_MODEL=scripted \
    timeout 120 "$folder/npm/node_modules/.bin/qwen" --auth-type openai -m scripted "make a file" < /dev/null > /dev/null
echo "qwen-code $("$folder/npm/node_modules/.bin/qwen" --version)"
python3 - "$folder/home/.qwen/projects" <<'PY'
import json
import sys
from pathlib import Path

lines = [json.loads(line) for path in Path(sys.argv[1]).glob("*/chats/*.jsonl") for line in path.open()]
(told,) = [line["toolCallResult"] for line in lines if line["type"] == "tool_result"]
print("errorType:", told["errorType"])
print("the transcript says:", told["resultDisplay"])
assert told["errorType"] == "execution_denied"
assert 'Matching deny rule: "run_shell_command".' in told["resultDisplay"]
PY
test ! -e "$folder/project/a.txt"

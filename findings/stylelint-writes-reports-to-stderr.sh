#!/usr/bin/env bash
# One would guess: `stylelint --formatter json > report.json` writes the report.
# True: since stylelint 16 every formatter's report goes to stderr, and stdout is empty; `--output-file` works.
# stylelint 17.16.0, node 20.20, 2026-11-27.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts stylelint@17.16.0
echo '{"rules": {"block-no-empty": true}}' > .stylelintrc.json
echo 'a {}' > a.css
npx stylelint --formatter json a.css > out.json 2> err.json || true
wc -c out.json err.json
[[ ! -s out.json ]] || { echo "reports go to stdout again"; exit 1; }
python3 -c 'import json; print(json.load(open("err.json"))[0]["warnings"][0]["rule"])'

#!/usr/bin/env bash
# One would guess: a test marked with `test.fail()`, which fails as it is expected to, is told apart from one that passed.
# True: its <testcase> has no <failure> and no <skipped>. Only a property named `fail` shows that its assertions do not
# hold; with AVA (`test.failing`) and Rust's libtest (`#[should_panic]`) nothing shows it.
# @playwright/test 1.65.1 and ava 7.0.0, node 20.20, 2026-11-27.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts @playwright/test@1.65.1 ava@7.0.0
cat > cart.spec.js <<'JS'
const { test, expect } = require('@playwright/test');
test('works', () => { test.fail(); expect(1).toBe(2); });
JS
cat > cart.mjs <<'JS'
import test from 'ava';
test.failing('works', t => t.is(1, 2));
JS
PLAYWRIGHT_JUNIT_OUTPUT_NAME=report.xml npx playwright test --reporter=junit > /dev/null
npx ava --tap cart.mjs > report.tap
cat report.xml report.tap
python3 - <<'PY'
import xml.etree.ElementTree as ET

case = next(ET.parse("report.xml").getroot().iter("testcase"))
assert case.find("failure") is None and case.find("skipped") is None, "it has a child of its own now"
assert [each.get("name") for each in case.iter("property")] == ["fail"], "it is marked in another way"
PY
grep -qx 'ok 1 - works' report.tap || { echo "AVA marks it now"; exit 1; }

#!/usr/bin/env bash
# One would guess: a spec that did not run, because another one is focused with `fit`, has <skipped> in the JUnit report,
# as one that is excluded with `xit` has.
# True: jasmine-reporters writes it as a test case without children, exactly like a spec that passed: `failures` is 0 and
# a run with `fit` or `--filter` looks as if every spec had passed. The specs that `xit` excludes are written so as well.
# jasmine 7.0.0, jasmine-reporters 2.5.2, node 20.20, 2026-11-27.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts jasmine@7.0.0 jasmine-reporters@2.5.2
cat > cart.spec.js <<'JS'
const { JUnitXmlReporter } = require('jasmine-reporters');
jasmine.getEnv().addReporter(new JUnitXmlReporter({ savePath: '.' }));
describe('cart', () => {
  it('is wrong', () => { expect(1).toBe(2); });
  xit('is excluded', () => { expect(1).toBe(2); });
  fit('is focused', () => { expect(1).toBe(1); });
});
JS
npx jasmine cart.spec.js > /dev/null 2>&1 || true
cat junitresults.xml
grep -qE '<testcase classname="cart" name="is wrong" time="[0-9.]+" />' junitresults.xml || { echo "no longer written like a pass"; exit 1; }
grep -q 'tests="3" skipped="0" disabled="0" failures="0"' junitresults.xml || { echo "the counts have changed"; exit 1; }

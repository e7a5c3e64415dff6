#!/usr/bin/env bash
# One would guess: a test module that cannot be imported is reported under one name, as unittest's `_FailedTest` is.
# True: nose2 names the module in `name` and its own `nose2.loader.LoadTestsFailure` in `classname`, while the tests of the
# module, once it loads, stand under `module.Class`: nothing in the one leads to the other but the name.
# nose2 0.16.0, 2026-11-27.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check nose2==0.16.0
cd "$folder"
run() {
    rm -rf __pycache__
    venv/bin/nose2 --plugin nose2.plugins.junitxml --junit-xml > /dev/null 2>&1 || true
    grep -o '<testcase[^>]*>' nose2-junit.xml | grep -oE '(classname|name)="[^"]*"' | sort | paste -sd' '
}
test='import unittest\nclass Cart(unittest.TestCase):\n    def test_sums(self): pass\n'
printf "import no_such_module\n$test" > test_cart.py
before=$(run)
printf "$test" > test_cart.py
after=$(run)
printf '%s\n' "before: $before" "after:  $after"
[[ $before == 'classname="nose2.loader.LoadTestsFailure" name="test_cart"' ]] || { echo "import errors have another name"; exit 1; }
[[ $after == 'classname="test_cart.Cart" name="test_sums"' ]] || { echo "tests have another name"; exit 1; }

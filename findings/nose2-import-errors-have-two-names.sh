#!/usr/bin/env bash
# One would guess: a test module that cannot be imported has one name in nose2's JUnit report, however the run is started.
# True: it is `nose2.loader.ModuleImportFailure` where the module was discovered, and `nose2.loader.LoadTestsFailure` where
# it was named on the command line. Once it can be imported neither is left: its tests stand under `module.Class`.
# nose2 0.16.0, 2026-11-27.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check nose2==0.16.0
cd "$folder"
names() {
    venv/bin/nose2 --plugin nose2.plugins.junitxml --junit-xml "$@" > /dev/null 2>&1 || true
    grep -o '<testcase[^>]*>' nose2-junit.xml | grep -oE '\b(classname|name)="[^"]*"' | sort | paste -sd' '
}
printf 'import no_such_module\n' > test_cart.py
discovered=$(names)
named=$(names test_cart)
printf 'import unittest\n\n\nclass Cart(unittest.TestCase):\n    def test_sums(self):\n        pass\n' > test_cart.py
mended=$(names)
printf '%s\n' "discovered: $discovered" "named:      $named" "mended:     $mended"
[[ $discovered == 'classname="nose2.loader.ModuleImportFailure" name="test_cart"' ]] || { echo "another name if discovered"; exit 1; }
[[ $named == 'classname="nose2.loader.LoadTestsFailure" name="test_cart"' ]] || { echo "another name if named"; exit 1; }
[[ $mended == 'classname="test_cart.Cart" name="test_sums"' ]] || { echo "another name if mended"; exit 1; }

#!/usr/bin/env bash
# One would guess: `tests` of a JUnit report is the number of its <testcase> elements.
# True: pytest adds each subtest, passed or failed, to `tests`, but writes one element for the test around them. So a
# reader cannot take the surplus or the lack of elements for reruns, which are elements that `tests` does not count.
# pytest 9.2.0 (and pytest-rerunfailures 16.7), 2026-11-27.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pytest==9.2.0 pytest-rerunfailures==16.7
cd "$folder"
cat > test_a.py <<'PY'
TRIES = []


def test_sums(subtests):
    for number in range(3):
        with subtests.test(number=number):
            assert number < 3


def test_flaky():
    TRIES.append(1)
    assert len(TRIES) == 3
PY
count() {
    venv/bin/pytest -q -p no:cacheprovider --junitxml=report.xml "$@" test_a.py > /dev/null || true
    python3 - "$@" <<'PY'
import sys
import xml.etree.ElementTree as ET

suite = ET.parse("report.xml").getroot()[0]
print(*sys.argv[1:], "tests:", suite.get("tests"), "elements:", len(suite.findall("testcase")))
PY
}
subtests=$(count -k test_sums)
reruns=$(count -k test_flaky --reruns 3)
printf '%s\n' "$subtests" "$reruns"
[[ $subtests == *"tests: 4 elements: 1" ]] || { echo "subtests are counted in another way"; exit 1; }
[[ $reruns == *"tests: 1 elements: 3" ]] || { echo "reruns are counted in another way"; exit 1; }

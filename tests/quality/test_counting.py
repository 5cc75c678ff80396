# SPDX-License-Identifier: Apache-2.0
"""tools/count_tests.py counts what ctest wrote: passed, failed and skipped programs, the functions of
cmocka programs, and as failed what could not be started."""

import pathlib
import subprocess
import sys
import tempfile

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools/count_tests.py"

REPORT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite tests="8">
<testcase name="plain" status="run"><system-out>fine</system-out></testcase>
<testcase name="unit" status="run"><system-out>[==========] Running 3 test(s).
SKIP: no disk to fill
[  SKIPPED ] b
[==========] 3 test(s) run.
[  PASSED  ] 2 test(s).
[  SKIPPED ] 1 test(s), listed below:
[  SKIPPED ] b
</system-out></testcase>
%s
</testsuite>
"""
SKIPPED = """<testcase name="tool" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>
<system-out>SKIP: no such tool
</system-out></testcase>"""
UNITTEST = """<testcase name="python" status="run"><system-out>test_a (__main__.A.test_a) ... ok
test_b (__main__.A.test_b) ... skipped 'no such package'
test_c (__main__.A.test_c) ... skipped "it's late"

Ran 3 tests in 0.100s

OK (skipped=2)
</system-out></testcase>"""
QUIET_UNITTEST = """<testcase name="python" status="run"><system-out>.s
Ran 2 tests in 0.100s

OK (skipped=1)
</system-out></testcase>"""
FAILURES = [
    '<testcase name="bad" status="fail"><failure message=""/><system-out></system-out></testcase>',
    '<testcase name="gone" status="notrun"><skipped message="Unable to find executable"/>'
    '<system-out></system-out></testcase>',
    '<testcase name="after" status="notrun"><skipped message="Fixture dependency failed"/>'
    '</testcase>',
    '<testcase name="functions" status="fail"><failure message=""/><system-out>'
    '[==========] tests: 2 test(s) run.[  ERROR   ] --- no\n[  PASSED  ] 1 test(s).\n'
    '[  FAILED  ] tests: 1 test(s), listed below:\n[  FAILED  ] c\n</system-out></testcase>',
]


def count(text, *options):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "junit.xml"
        if text is not None:
            path.write_text(text, encoding="utf-8")
        result = subprocess.run([sys.executable, SCRIPT, *options, path], check=False, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return result.returncode, result.stdout.splitlines()


def expect(found, code, last):
    assert found[0] == code and found[1][-1] == last, found


def main():
    expect(count(REPORT % ""), 0, "3 passed, 0 failed, 1 skipped")
    expect(count(REPORT % SKIPPED), 0, "3 passed, 0 failed, 2 skipped")
    assert count(REPORT % SKIPPED)[1][:2] == [
        "skipped: unit, b: no disk to fill", "skipped: tool: no such tool"]
    expect(count(REPORT % UNITTEST), 0, "4 passed, 0 failed, 3 skipped")
    assert count(REPORT % UNITTEST)[1][1:3] == [
        "skipped: python, test_b: no such package", "skipped: python, test_c: it's late"]
    expect(count(REPORT % QUIET_UNITTEST), 0, "4 passed, 0 failed, 2 skipped")
    assert count(REPORT % QUIET_UNITTEST)[1][1] == "skipped: python: no reason given"
    for failure in FAILURES[:3]:
        found = count(REPORT % failure)
        expect(found, 1, "3 passed, 1 failed, 1 skipped")
        assert found[1][-2] == "failed: " + failure.split('"')[1], found
    expect(count(REPORT % FAILURES[3]), 1, "4 passed, 1 failed, 1 skipped")
    found = count(REPORT % "", "--gates", "a|passed b|failed c|skipped d|passed")
    expect(found, 1, "5 passed, 1 failed, 2 skipped")
    assert found[1][-2] == "failed: gate b", found
    expect(count(None), 1, "0 passed, 1 failed, 0 skipped")
    expect(count("<testsuite></testsuite>"), 1, "0 passed, 0 failed, 0 skipped")


if __name__ == "__main__":
    main()

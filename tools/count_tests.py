# SPDX-License-Identifier: Apache-2.0
"""Counts the tests of JUnit reports that ctest wrote; says why tests were skipped, and which programs failed.

A program of cmocka counts as the test functions that it ran, anything else as one test. A test that
is skipped prints a line "SKIP: reason" (or "skipped: reason"). A test that ctest could not start has failed.

Usage: count_tests.py [--gates NAME|VERDICT...] REPORT...      last line: N passed, N failed, N skipped
Exit code 1 when something failed, a report is missing, or nothing was run.
"""

import argparse
import dataclasses
import re
import sys
import xml.etree.ElementTree

RAN = re.compile(r"^\[=+\] (?:\S+: )?(\d+) test\(s\) run", re.MULTILINE)
FAILED = re.compile(r"^\[  FAILED  \] (?:\S+: )?(\d+) test\(s\)", re.MULTILINE)
SKIPPED = re.compile(r"^\[  SKIPPED \] (?:\S+: )?(\d+) test\(s\)", re.MULTILINE)
SKIPPED_FUNCTION = re.compile(r"^\[  SKIPPED \] (?!\d+ test)(\S+)$")
UNITTEST_SKIPPED = re.compile(r"^(?:OK|FAILED) \(.*\bskipped=(\d+)", re.MULTILINE)
UNITTEST_REASON = re.compile(r"^(\w+) \(.*\.\.\. skipped (?:'(.*)'|\"(.*)\")$", re.MULTILINE)
REASON = re.compile(r"^(?:SKIP|skipped): (.*)$")


@dataclasses.dataclass
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    reasons: list = dataclasses.field(default_factory=list)
    failures: list = dataclasses.field(default_factory=list)

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.reasons += other.reasons
        self.failures += other.failures

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def total(pattern, output):
    return sum(int(number) for number in pattern.findall(output))


def reasons_of(name, output, is_cmocka):
    """Why the program, or each function of it that was skipped, was: the last reason before."""
    reason, reasons = None, []
    for line in output.splitlines():
        found, function = REASON.match(line), SKIPPED_FUNCTION.match(line)
        if found:
            reason = found.group(1)
        elif function and f"{name}, {function.group(1)}" not in (r.split(":")[0] for r in reasons):
            reasons.append(f"{name}, {function.group(1)}: {reason or 'no reason given'}")
            reason = None
    return reasons if is_cmocka else [f"{name}: {reason or 'no reason given'}"]


def skipped_in_unittest(name, output):
    """What a program of Python's unittest skipped; it is counted as one otherwise."""
    skipped = total(UNITTEST_SKIPPED, output)
    reasons = [f"{name}, {test}: {single or double}" for test, single, double in UNITTEST_REASON.findall(output)]
    reasons += [f"{name}: no reason given"] * (skipped - len(reasons))
    return Count(skipped=skipped, reasons=reasons)


def skipped_by_itself(case):
    """ctest writes <skipped> for missing programs and failed fixtures, too."""
    skipped = case.find("skipped")
    return case.get("status") == "disabled" or (
        skipped is not None and skipped.get("message", "").startswith("SKIP_"))


def count_case(case):
    """One program that ctest ran."""
    name = case.get("name")
    output = "".join(node.text or "" for node in case.iter("system-out"))
    if skipped_by_itself(case):
        return Count(skipped=1, reasons=reasons_of(name, output, is_cmocka=False))
    ran, failed, skipped = (total(pattern, output) for pattern in (RAN, FAILED, SKIPPED))
    if case.get("status") != "run":
        failed = max(failed, 1)
    reasons = reasons_of(name, output, is_cmocka=True)
    passed = max(ran - failed - skipped, 0) if ran else int(not failed)
    count = Count(passed, failed, skipped, reasons, [name] if failed else [])
    count.add(skipped_in_unittest(name, output))
    return count


def count_report(path):
    count = Count()
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        count.add(count_case(case))
    return count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gates", default="", help="to count too, each NAME|VERDICT: passed, failed, skipped")
    parser.add_argument("reports", nargs="+")
    arguments = parser.parse_args()
    count = Count()
    for path in arguments.reports:
        try:
            count.add(count_report(path))
        except (OSError, xml.etree.ElementTree.ParseError) as failure:
            print(f"{path}: {failure}", file=sys.stderr)
            count.add(Count(failed=1, failures=[path]))
    for gate in arguments.gates.split():
        name, verdict = gate.split("|")
        count.add(Count(**{verdict: 1}, failures=[f"gate {name}"] if verdict == "failed" else []))
    for reason in count.reasons:
        print("skipped:", reason)
    for failure in count.failures:
        print("failed:", failure)
    print(count)
    sys.exit(1 if count.failed or not count.passed else 0)


if __name__ == "__main__":
    main()

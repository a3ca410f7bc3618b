#!/usr/bin/env python3
"""Counts test cases over all reports of one run of tests/run.sh.

usage: collect.py REPORT-FOLDER

The folder holds, in any number:
  *.json         meson's test log, one JSON object a line and test program
  *.xml          pytest's JUnit report
  steps.failed   one line for each step (a build, say) that failed without a report

What did not pass is listed; the last line is exactly "N passed, N failed, N skipped".
Exit status: 0 when something ran and nothing failed, else 1.
"""

import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

# cmocka prints these on stdout once a case; the lists it repeats at the end go to stderr.
CMOCKA_PLAN = re.compile(r'^\[=+\] Running (\d+) test\(s\)\.', re.M)
CMOCKA_RUN = re.compile(r'^\[ RUN +\] (.*)$', re.M)
CMOCKA_END = re.compile(r'^\[ +(OK|FAILED|SKIPPED) +\] (.*)$', re.M)

# What meson calls a result that is not a failure.
MESON_PASSED = {'OK', 'EXPECTEDFAIL'}
MESON_SKIPPED = {'SKIP'}


@dataclass
class Counts:
    passed: int = 0
    skipped: int = 0
    failures: list = field(default_factory=list)

    def add(self, other):
        self.passed += other.passed
        self.skipped += other.skipped
        self.failures += other.failures


def count_program(record):
    """One test program of meson's log: its cmocka cases, or itself as one case."""
    name, result = record['name'], record['result']
    stdout = record.get('stdout') or ''
    planned = sum(int(number) for number in CMOCKA_PLAN.findall(stdout))
    started = CMOCKA_RUN.findall(stdout)
    ends = CMOCKA_END.findall(stdout)

    if planned == 0 and not started:
        if result in MESON_PASSED:
            return Counts(passed=1)
        if result in MESON_SKIPPED:
            return Counts(skipped=1)
        return Counts(failures=[f'{name}: {result.lower()}'])

    counts = Counts(passed=sum(1 for end, _ in ends if end == 'OK'),
                    skipped=sum(1 for end, _ in ends if end == 'SKIPPED'))
    counts.failures = [f'{name}: {case}' for end, case in ends if end == 'FAILED']
    unfinished = list(started)
    for _, case in ends:
        if case in unfinished:
            unfinished.remove(case)
    counts.failures += [f'{name}: {case}: did not end ({result.lower()})' for case in unfinished]
    counts.failures += [f'{name}: a case was never reached ({result.lower()})'
                        ] * max(0, planned - len(started))
    if result not in MESON_PASSED | MESON_SKIPPED and not counts.failures:
        # Every case passed and the program still failed: a leak report at exit, for example.
        counts.failures = [f'{name}: {result.lower()}, exit status {record.get("returncode")}']
    return counts


def count_meson_log(text):
    counts = Counts()
    for line in text.splitlines():
        if line.strip():
            try:
                counts.add(count_program(json.loads(line)))
            except (ValueError, KeyError) as error:
                counts.failures.append(f'meson log: unreadable line ({error})')
    return counts


def count_junit(text):
    counts = Counts()
    try:
        cases = list(ElementTree.fromstring(text).iter('testcase'))
    except ElementTree.ParseError as error:
        return Counts(failures=[f'pytest report: unreadable ({error})'])
    for case in cases:
        name = f'{case.get("classname")}: {case.get("name")}'
        if case.find('failure') is not None or case.find('error') is not None:
            counts.failures.append(name)
        elif case.find('skipped') is not None:
            counts.skipped += 1
        else:
            counts.passed += 1
    return counts


def count_folder(folder):
    counts = Counts()
    for path in sorted(Path(folder).iterdir()):
        text = path.read_text(encoding='utf-8', errors='replace')
        if path.suffix == '.json':
            counts.add(count_meson_log(text))
        elif path.suffix == '.xml':
            counts.add(count_junit(text))
        elif path.name == 'steps.failed':
            counts.failures += [f'step failed: {line}' for line in text.splitlines() if line]
    return counts


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    counts = count_folder(sys.argv[1])
    for failure in counts.failures:
        print(f'FAILED {failure}')
    print(f'{counts.passed} passed, {len(counts.failures)} failed, {counts.skipped} skipped')
    ran = counts.passed + counts.skipped + len(counts.failures)
    sys.exit(1 if counts.failures or ran == 0 else 0)


if __name__ == '__main__':
    main()

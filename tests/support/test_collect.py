"""collect.py counts what really happened, also when a program dies in the middle."""

import json
import subprocess
import sys
from pathlib import Path

COLLECT = Path(__file__).with_name('collect.py')

GOOD = '''[==========] Running 3 test(s).
[ RUN      ] one
[       OK ] one
[ RUN      ] two
[       OK ] two
[ RUN      ] three
[  SKIPPED ] three
[==========] 3 test(s) run.
'''
CRASHED = '''[==========] Running 4 test(s).
[ RUN      ] one
[       OK ] one
[ RUN      ] two
'''
FAILED = '''[==========] Running 2 test(s).
[ RUN      ] one
[  FAILED  ] one
[ RUN      ] two
[       OK ] two
[==========] 2 test(s) run.
'''


def collect(folder):
    done = subprocess.run([sys.executable, COLLECT, folder], capture_output=True, text=True)
    return done.returncode, done.stdout.splitlines()


def program(stdout, result='OK', returncode=0, name='t'):
    return json.dumps({'name': name, 'stdout': stdout, 'result': result, 'returncode': returncode})


def test_cases_are_counted_not_programs(tmp_path):
    (tmp_path / 'base.json').write_text(program(GOOD) + '\n' + program('no cmocka here') + '\n')
    assert collect(tmp_path) == (0, ['3 passed, 0 failed, 1 skipped'])


def test_a_failed_case_is_counted_once(tmp_path):
    repeated = ' \n[  FAILED  ] 1 test(s), listed below:\n[  FAILED  ] one\n'
    record = json.loads(program(FAILED, 'FAIL', 1))
    record['stderr'] = repeated
    (tmp_path / 'base.json').write_text(json.dumps(record))
    assert collect(tmp_path) == (1, ['FAILED t: one', '1 passed, 1 failed, 0 skipped'])


def test_a_crash_fails_the_running_case_and_those_never_reached(tmp_path):
    (tmp_path / 'base.json').write_text(program(CRASHED, 'FAIL', -6))
    code, lines = collect(tmp_path)
    assert code == 1
    assert lines[0] == 'FAILED t: two: did not end (fail)'
    assert lines[-1] == '1 passed, 3 failed, 0 skipped'


def test_a_crash_before_any_output_is_one_failure(tmp_path):
    (tmp_path / 'base.json').write_text(program('', 'FAIL', -11))
    assert collect(tmp_path)[1][-1] == '0 passed, 1 failed, 0 skipped'


def test_a_crash_after_the_last_case_is_one_failure(tmp_path):
    (tmp_path / 'base.json').write_text(program(GOOD, 'FAIL', 23))
    assert collect(tmp_path) == (1, ['FAILED t: fail, exit status 23',
                                     '2 passed, 1 failed, 1 skipped'])


def test_a_timeout_is_a_failure(tmp_path):
    (tmp_path / 'base.json').write_text(program(CRASHED, 'TIMEOUT', -15) + '\n' +
                                        program('', 'TIMEOUT', -15))
    assert collect(tmp_path)[1][-1] == '1 passed, 4 failed, 0 skipped'


def test_cases_of_one_name_are_each_counted(tmp_path):
    twice = GOOD.replace('two', 'one')
    (tmp_path / 'base.json').write_text(program(twice))
    assert collect(tmp_path) == (0, ['2 passed, 0 failed, 1 skipped'])


def test_a_program_that_skips_itself(tmp_path):
    (tmp_path / 'base.json').write_text(program('', 'SKIP', 77))
    assert collect(tmp_path) == (0, ['0 passed, 0 failed, 1 skipped'])


def test_pytest_reports(tmp_path):
    (tmp_path / 'cli.xml').write_text(
        '<testsuites><testsuite><testcase classname="c" name="a"/>'
        '<testcase classname="c" name="b"><failure message="no"/></testcase>'
        '<testcase classname="c" name="d"><error message="no"/></testcase>'
        '<testcase classname="c" name="e"><skipped message="no"/></testcase>'
        '</testsuite></testsuites>')
    assert collect(tmp_path) == (1, ['FAILED c: b', 'FAILED c: d',
                                     '1 passed, 2 failed, 1 skipped'])


def test_broken_reports_are_failures(tmp_path):
    (tmp_path / 'a.json').write_text(program(GOOD) + '\n{"name": "half')
    (tmp_path / 'b.xml').write_text('<testsuites><testsuite>')
    assert collect(tmp_path)[1][-1] == '2 passed, 2 failed, 1 skipped'


def test_a_failed_step_is_a_failure(tmp_path):
    (tmp_path / 'a.json').write_text(program(GOOD))
    (tmp_path / 'steps.failed').write_text('build with sanitizers\n')
    assert collect(tmp_path) == (1, ['FAILED step failed: build with sanitizers',
                                     '2 passed, 1 failed, 1 skipped'])


def test_nothing_ran_is_no_success(tmp_path):
    assert collect(tmp_path) == (1, ['0 passed, 0 failed, 0 skipped'])

"""Each gate passes on the tree, and each finds a violation planted in a copy of it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

GATES = Path(__file__).parent
ROOT = GATES.parents[1]
BUILD = ROOT / 'build-gates'

TEXT_GATES = ['layers', 'banned', 'sizes', 'format', 'text', 'links', 'readme', 'headers', 'suites', 'shell', 'faults']


def run_gate(name, *arguments):
    done = subprocess.run([sys.executable, GATES / f'{name}.py', *arguments],
                          capture_output=True, text=True)
    assert done.stderr == ''
    return done.returncode, done.stdout


def passes(name, *arguments):
    code, output = run_gate(name, *arguments)
    assert output == ''
    assert code == 0


def finds(message, name, *arguments):
    code, output = run_gate(name, *arguments)
    assert message in output
    assert code == 1


def keeps_quiet(name, *arguments):
    """The gate says nothing about planted files."""
    assert 'planted' not in run_gate(name, *arguments)[1]


@pytest.fixture
def tree(tmp_path):
    """A copy of the tree without what was built."""
    copy = tmp_path / 'tree'
    shutil.copytree(ROOT, copy, symlinks=True, ignore=shutil.ignore_patterns(
        'build*', '.git', '.cache', 'node_modules', '__pycache__'))
    return copy


def plant(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


# --- the tree ------------------------------------------------------------------------------------


@pytest.mark.parametrize('name', TEXT_GATES)
def test_tree_passes(name):
    passes(name)


@pytest.mark.parametrize('compiler', ['gcc', 'clang'])
def test_tree_compiles(compiler):
    passes('compilers', '--build', BUILD, '--compiler', compiler)


def test_tree_exports_what_is_listed():
    passes('symbols', '--build', BUILD / 'gcc')


def test_tree_is_tidy():
    passes('tidy', '--build', BUILD / 'clang')


# --- layers --------------------------------------------------------------------------------------

LAYER_VIOLATIONS = [
    ('src/base/planted.c', '#include "agent/run.h"\n',
     'src/base may not include src/agent/run.h'),
    ('src/model/planted.c', '#include "http/http.h"\n',
     'src/model may not include src/http/http.h'),
    ('src/model/planted.c', '#include "sandbox/sandbox.h"\n',
     'src/model may not include src/sandbox/sandbox.h'),
    ('src/hand/planted.c', '#include "base/buf.h"\n', 'src/hand may not include src/base/buf.h'),
    ('src/hand/planted.c', '#include <waldo/status.h>\n',
     'src/hand may not include include/waldo/status.h'),
    ('backends/fake/planted.c', '#include "agent/run.h"\n',
     'backends/* may not include src/agent/run.h'),
    ('examples/cli/planted.c', '#include "base/buf.h"\n',
     'examples may not include src/base/buf.h'),
    ('src/agent/planted.c', '#include <cjson/cJSON.h>\n',
     '<cjson/cJSON.h> may be included only by src/json'),
    ('src/http/planted.c', '#include <sodium.h>\n',
     '<sodium.h> may be included only by src/secret'),
    ('backends/fake/planted.c', '#include <curl/curl.h>\n',
     '<curl/curl.h> may be included only by src/http'),
    ('src/store/planted.c', '#include <sqlite3.h>\n', '<sqlite3.h> may be included only by'),
    ('src/agent/planted.c', '#include <sys/epoll.h>\n',
     '<sys/epoll.h> may be included only by src/loop'),
    ('src/agent/planted.c', 'const char *kind = "e2b";\n', 'the core names no provider: e2b'),
    ('src/sandbox/planted.c', 'int docker_open(void);\n', 'the core names no provider: docker'),
    ('src/agent/planted.c', 'const char *vendor = "OpenAI";\n',
     'the core names no provider: OpenAI'),
    ('src/newfolder/planted.c', 'int waldo__x;\n', 'no row of tests/layers.txt covers this file'),
]


@pytest.mark.parametrize('path, line, message', LAYER_VIOLATIONS)
def test_layers_finds(tree, path, line, message):
    plant(tree / path, '/* a comment */\n' + line)
    number = 1 if 'no row' in message else 2
    finds(f'{path}:{number}: {message}', 'layers', '--root', tree)


def test_layers_allows_what_the_table_allows(tree):
    plant(tree / 'src/json/planted.c', '#include <cjson/cJSON.h>\n#include "base/buf.h"\n')
    plant(tree / 'src/base/planted.c', '/* as docker does: #include "agent/run.h" */\n')
    plant(tree / 'backends/fake/planted.c', 'const char *kind = "docker";\n')
    keeps_quiet('layers', '--root', tree)


# --- banned calls --------------------------------------------------------------------------------

BANNED = ['sprintf', 'strcpy', 'strcat', 'strncpy', 'strtok', 'atoi', 'gets', 'alloca', 'system',
          'popen', 'strerror', 'localtime', 'gmtime', 'rand', 'getenv', 'curl_easy_perform',
          'cJSON_GetObjectItem', 'cJSON_Parse', 'malloc', 'free', 'signal']


@pytest.mark.parametrize('name', BANNED)
def test_banned_finds(tree, name):
    plant(tree / 'src/base/planted.c', f'void f(void)\n{{\n    {name} (0);\n}}\n')
    finds(f'src/base/planted.c:3: {name}() is banned', 'banned', '--root', tree)


@pytest.mark.parametrize('folder', ['backends/fake', 'examples'])
def test_banned_reads_backends_and_examples(tree, folder):
    plant(tree / folder / 'planted.c', 'int a = atoi("1");\n')
    finds(f'{folder}/planted.c:1: atoi() is banned', 'banned', '--root', tree)


def test_banned_knows_comments_strings_and_longer_names(tree):
    plant(tree / 'src/base/planted.c', '''/* system("x"),
 * strcpy(a, b) */
const char *a = "system(1) \\" atoi(2)"; // gets(a)
char quote = '"'; int b = snprintf(0, 0, "rand()"); char c = '\\''; int d = my_rand();
int e = strerror_r(1, 0, 0) + ops->system(1) + ops.free(2);
void *f = cJSON_GetObjectItemCaseSensitive(0, ""); void *g = cJSON_ParseWithLengthOpts(0, 0, 0, 0);
''')
    keeps_quiet('banned', '--root', tree)


def test_banned_lets_the_environment_be_read_in_two_places(tree):
    plant(tree / 'src/base/env.c', 'const char *waldo__env(void) { return getenv("A"); }\n')
    plant(tree / 'examples/cli/planted.c', 'const char *a(void) { return getenv("A"); }\n')
    passes('banned', '--root', tree)


# --- sizes ---------------------------------------------------------------------------------------


def test_sizes_finds_a_long_file(tree):
    plant(tree / 'src/base/planted.c', 'int waldo__x;\n' * 801)
    finds('src/base/planted.c:801: 801 lines, a file has at most 800', 'sizes', '--root', tree)


def test_sizes_finds_a_long_function(tree):
    body = '    step("}");\n' * 79
    plant(tree / 'src/base/planted.c', f'static int ok(void)\n{{\n{body[:-15]}}}\n\n'
                                       f'static int too_long(int a,\n                    int b)\n'
                                       f'{{\n{body}}}\n')
    finds('too_long() has 81 lines, a function has at most 80', 'sizes', '--root', tree)
    _, output = run_gate('sizes', '--root', tree)
    assert 'ok()' not in output


# --- format and text -----------------------------------------------------------------------------


def test_format_finds(tree):
    plant(tree / 'src/base/planted.c', 'int waldo__x;\nint  waldo__y;\n')
    finds('src/base/planted.c:2: not formatted', 'format', '--root', tree)


@pytest.mark.parametrize('line, message', [
    ('int waldo__x; ', 'white space at the end of the line'),
    ('\tint waldo__x;', 'a tab, use spaces'),
    ('/* TO' 'DO: later */', 'TO' 'DO left in the file'),
    ('/* FIX' 'ME */', 'FIX' 'ME left in the file'),
    ('/* XX' 'X */', 'XX' 'X left in the file'),
    ('<<<<<<< HEAD', 'a conflict marker'),
    (f'/* {"x" * 100} */', '106 columns, a line has at most 100'),
    ('int waldo__x;\n', 'empty line at the end of the file'),
])
def test_text_finds(tree, line, message):
    plant(tree / 'src/base/planted.c', f'int waldo__z;\n{line}\n')
    finds(f'src/base/planted.c:2: {message}' if 'empty' not in message
          else f'src/base/planted.c:3: {message}', 'text', '--root', tree)


@pytest.mark.parametrize('path, text, message', [
    ('tests/base/meson.build', "test('t', exe, suite: 'bass')\n",
     "tests/base/meson.build:1: suite 'bass' is not one of tests/run.sh"),
    ('tests/base/meson.build', "\ntest('t', exe,\n    suite: ['base', 'thread'])\n",
     "tests/base/meson.build:3: suite 'thread' is not one of tests/run.sh"),
    ('tests/base/meson.build', "test('t', exe)\n",
     'tests/base/meson.build:1: a test without a suite never runs'),
    ('tests/other/test_planted.py', '', 'tests/other/test_planted.py:1: no suite runs this file'),
])
def test_suites_finds_a_test_that_never_runs(tree, path, text, message):
    plant(tree / path, text)
    finds(message, 'suites', '--root', tree)


@pytest.mark.parametrize('path, old, new, message', [
    ('tests/contract/peer_faults.txt', 'F14 sandbox ', 'F44 sandbox ', 'F14 has no row'),
    ('tests/contract/peer_faults.txt', 'f14_children_that', 'f14_nothing_that',
     'test_faults.c has no f14_nothing_that'),
    ('tests/contract/peer_faults.txt', 'any tests/model/test_calls', 'sandbox tests/model/test_calls',
     'it does not run against both backends'),
    ('tests/contract/test_faults.c', 'CASE(f14_children_that_hold_the_pipes),', '',
     'test_faults.c does not run f14_children_that_hold_the_pipes'),
    ('tests/docker/test_contract.py', '"test-faults"', '"test"', 'tests/docker/test_contract.py does not run it'),
    ('tests/docker/test_contract.py', 'GROUPS.split(', '("x")', 'tests/docker/test_contract.py does not run its group'),
    ('tests/docker/test_gc.py', 'def test_killed_between', 'def killed_between', 'has no test_killed_between'),
])
def test_faults_finds_a_fault_without_a_test(tree, path, old, new, message):
    text = (tree / path).read_text()
    assert old in text
    plant(tree / path, text.replace(old, new) if 'F14' not in old
          else '\n'.join(line for line in text.split('\n') if not line.startswith('F14 ')))
    finds(message, 'faults', '--root', tree)


def test_shell_finds_a_bash_word_and_an_unquoted_one(tree):
    plant(tree / 'tests/planted.sh', '#!/bin/sh\nif [[ -n "$1" ]]; then rm $1; fi\n')
    finds('tests/planted.sh:2: ', 'shell', '--root', tree)


# --- pages ---------------------------------------------------------------------------------------


def test_links_finds_a_missing_file_and_a_missing_heading(tree):
    plant(tree / 'docs/planted.md', '# A page\n[a](nowhere.md)\n[b](planted.md#a-page)\n'
                                    '[c](#no-such)\n```\n[d](nowhere.md)\n```\n')
    finds('docs/planted.md:2: link to nowhere.md: no such file', 'links', '--root', tree)
    finds('docs/planted.md:4: link to #no-such: no such heading', 'links', '--root', tree)
    _, output = run_gate('links', '--root', tree)
    assert 'docs/planted.md:3' not in output and 'docs/planted.md:6' not in output


def test_readme_finds_a_program_that_is_no_example(tree):
    plant(tree / 'README.md', 'Hello.\n\n```c\nint main(void)\n{\n    return 0;\n}\n```\n')
    finds('README.md:3: this program equals no file in examples/', 'readme', '--root', tree)
    plant(tree / 'examples/planted.c', 'int main(void)\n{\n    return 0;\n}\n')
    passes('readme', '--root', tree)


def test_readme_finds_a_program_that_does_not_compile(tree):
    plant(tree / 'README.md', '```c\nint main(void)\n{\n    return x;\n}\n```\n')
    plant(tree / 'examples/planted.c', 'int main(void)\n{\n    return x;\n}\n')
    finds('README.md:1: this program does not compile', 'readme', '--root', tree)


def test_readme_must_exist(tree):
    (tree / 'README.md').unlink(missing_ok=True)
    finds('README.md:1: there is no README.md', 'readme', '--root', tree)


# --- headers -------------------------------------------------------------------------------------


@pytest.mark.parametrize('text, message', [
    ('size_t waldo_planted_size;\n', 'does not compile alone with gcc'),
    ('static inline int waldo_planted(int class) { return class; }\n',
     'does not compile alone with g++ -std=c++17'),
    ('int waldo_planted = __builtin_readcyclecounter() != 0;\n', 'does not compile alone with gcc'),
    ('#define WALDO_API\nWALDO_API int waldo_planted(void);\n',
     'waldo_planted() has no doc comment with Thread: and Since:'),
    ('#define WALDO_API\n/** Says little. Since: 0.1. */\n'
     'WALDO_API int waldo_planted(\n    int a);\n',
     'waldo_planted() has no doc comment with Thread:'),
    ('#define WALDO_API\n/** Says all. Thread: any. Since: 0.1. */\nWALDO_API int waldo_b(void);\n'
     'WALDO_API int waldo_planted(void);\n',
     'waldo_planted() has no doc comment with Thread: and Since:'),
])
def test_headers_finds(tree, text, message):
    plant(tree / 'include/waldo/planted.h', text)
    finds('include/waldo/planted.h:', 'headers', '--root', tree)
    finds(message, 'headers', '--root', tree)


# --- what is built -------------------------------------------------------------------------------


@pytest.fixture
def built(tmp_path):
    """Copies of the libraries of the release build, to be spoilt."""
    folder = tmp_path / 'built'
    folder.mkdir()
    for library in ['libwaldo.a', 'libwaldo.so']:
        shutil.copy(BUILD / 'gcc' / library, folder / library)
    return folder


def test_symbols_finds_what_is_not_listed_and_what_is_gone(tree, built):
    passes('symbols', '--root', tree, '--build', built, '--update')
    page = tree / 'tests/abi/symbols.txt'
    symbols = page.read_text().split()
    page.write_text('\n'.join(['waldo_gone', *symbols[1:]]) + '\n')
    code, output = run_gate('symbols', '--root', tree, '--build', built)
    assert code == 1
    assert output.splitlines() == [
        'tests/abi/symbols.txt:1: waldo_gone is listed, but libwaldo.so does not export it',
        f'tests/abi/symbols.txt:{len(symbols) + 1}: libwaldo.so exports {symbols[0]}, '
        'which is not listed']


def test_symbols_finds_a_bare_name_in_the_archive(tree, built):
    passes('symbols', '--root', tree, '--build', built, '--update')
    plant(built / 'planted.c', 'int helper(void);\nint helper(void)\n{\n    return 1;\n}\n'
                               'static int fine(void);\nint waldo__fine(void);\n'
                               'static int fine(void)\n{\n    return 2;\n}\n'
                               'int waldo__fine(void)\n{\n    return fine();\n}\n')
    subprocess.run(['gcc', '-c', 'planted.c'], cwd=built, check=True)
    subprocess.run(['ar', 'r', 'libwaldo.a', 'planted.o'], cwd=built, check=True)
    code, output = run_gate('symbols', '--root', tree, '--build', built)
    assert code == 1
    assert output.splitlines() == [
        'libwaldo.a:1: planted.o defines helper without waldo_ or waldo__']


def test_symbols_finds_a_bare_name_that_is_exported(tree, built):
    plant(built / 'planted.c', 'int bare(void);\nint bare(void)\n{\n    return 1;\n}\n')
    subprocess.run(['gcc', '-shared', '-fPIC', '-o', 'libwaldo.so', 'planted.c'], cwd=built,
                   check=True)
    finds('libwaldo.so:1: exports bare without the prefix waldo_', 'symbols', '--root', tree,
          '--build', built)


SMALL_PROJECT = '''project('small', 'c', default_options: ['warning_level=2', 'werror=true'])
executable('small', 'src/small.c')
'''
SMALL_OPTIONS = "option('tests', type: 'boolean', value: true)\n"


@pytest.fixture
def small(tmp_path):
    """A small project with the tree's clang-tidy options."""
    folder = tmp_path / 'small'
    plant(folder / 'meson.build', SMALL_PROJECT)
    plant(folder / 'meson_options.txt', SMALL_OPTIONS)
    shutil.copy(ROOT / '.clang-tidy', folder / '.clang-tidy')
    return folder


@pytest.mark.parametrize('compiler', ['gcc', 'clang'])
def test_compilers_finds_a_warning(small, compiler):
    plant(small / 'src/small.c', 'int main(void)\n{\n    int unused;\n    return 0;\n}\n')
    finds(f'src/small.c:3: {compiler}: unused variable', 'compilers', '--root', small,
          '--build', small / 'build', '--compiler', compiler)


def test_compilers_finds_what_clang_says_of_a_test(small):
    plant(small / 'src/small.c', 'int main(void)\n{\n    return 0;\n}\n')
    plant(small / 'tests/test_small.c', 'const char *tail(int at);\n'
                                        'const char *tail(int at)\n{\n    return "key" + at;\n}\n'
                                        'int main(void)\n{\n    return tail(0) == 0;\n}\n')
    plant(small / 'meson.build', SMALL_PROJECT + "if get_option('tests')\n"
                                 "    executable('test_small', 'tests/test_small.c')\nendif\n")
    passes('compilers', '--root', small, '--build', small / 'build', '--compiler', 'gcc')
    finds('tests/test_small.c:4: clang: adding', 'compilers', '--root', small,
          '--build', small / 'build', '--compiler', 'clang')


@pytest.mark.parametrize('body, line, check', [
    ('    char *text = malloc(10);\n    return text == NULL;\n', 7, 'clang-analyzer-unix.Malloc'),
    ('    return atoi("1");\n', 6, 'cert-err34-c'),
    ('    if (getpid() == 1)\n        return 1;\n    return 0;\n', 6,
     'readability-braces-around-statements'),
    ('    double half = getpid() / 2;\n    return half > 1.0;\n', 6, 'bugprone-integer-division'),
])
def test_tidy_finds(small, body, line, check):
    plant(small / 'src/small.c', '#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n'
                                 f'int main(void)\n{{\n{body}}}\n')
    subprocess.run(['meson', 'setup', small / 'build', small], check=True, capture_output=True)
    code, output = run_gate('tidy', '--root', small, '--build', small / 'build')
    assert code == 1
    assert f'src/small.c:{line}: ' in output and check in output

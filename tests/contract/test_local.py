"""The local backend from outside: what is visible and allowed, and what is left when all is over."""

import base64
import io
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import tarfile
import tempfile

import pytest
from patience import until

import test_patch

BUILD = os.environ.get('WALDO_BUILD', os.path.join(os.path.dirname(__file__), '..', '..', 'build'))
USERS = ['self', 'nobody'] if os.geteuid() == 0 else ['self']


@pytest.fixture(scope='module')
def place():
    """A folder that every user may enter, with the program in it. pytest's own are closed to others."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix='contract-'))
    os.chmod(folder, 0o755)
    shutil.copy(os.path.join(BUILD, 'tests', 'contract', 'exec-tool'), folder / 'exec-tool')
    os.chmod(folder / 'exec-tool', 0o755)
    yield folder
    shutil.rmtree(folder)


class Sandbox:
    def __init__(self, place, user):
        self.tool = str(place / 'exec-tool')
        self.user = user

    def argv(self, cmd, spec='local:', workspace='-', mode='copy', more=()):
        prefix = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'] if self.user == 'nobody' else []
        return [*prefix, self.tool, spec, str(workspace), mode, cmd, *more]

    def run(self, cmd, env=None, **kwargs):
        return subprocess.run(self.argv(cmd, **kwargs), capture_output=True, timeout=180, check=False,
                              env={**os.environ, **(env or {})})

    def out(self, cmd, **kwargs):
        done = self.run(cmd, **kwargs)
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout.decode()


@pytest.fixture(params=USERS)
def sandbox(request, place):
    return Sandbox(place, request.param)


def processes(marker):
    found = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{pid}/cmdline', 'rb') as file:
                words = file.read().split(b'\0')
        except OSError:
            continue
        if marker.encode() in words:
            found.append(int(pid))
    return found


def test_identity(sandbox):
    text = sandbox.out('id -u; id -g; hostname; pwd; cat /proc/self/status')
    assert text.split()[:4] == ['1000', '1000', 'sandbox', '/workspace']
    assert re.search(r'^CapEff:\s+0+$', text, re.M) and re.search(r'^CapBnd:\s+0+$', text, re.M)
    assert re.search(r'^NoNewPrivs:\s+1$', text, re.M) and re.search(r'^Seccomp:\s+2$', text, re.M)


def test_environment_is_clean(sandbox):
    text = sandbox.out('env', env={'OPENAI_API_KEY': 'sk-secret', 'LD_PRELOAD_X': '1'})
    names = {line.split('=')[0] for line in text.splitlines()}
    assert names <= {'PATH', 'HOME', 'USER', 'LANG', 'TMPDIR', 'TERM', 'PWD', 'SHLVL', '_', 'OLDPWD'}
    assert sandbox.out("cat /proc/1/environ /proc/2/environ 2>/dev/null | tr '\\0' '\\n'; true").find('sk-secret') < 0


def test_host_files_are_not_there(sandbox, place):
    (place / 'visible').write_text('host')
    text = sandbox.out(f'ls -a /; for f in /root /home /work /etc/shadow /etc/ssl/private {place} /run/systemd '
                       '/var/run /proc/1/root/root; do ls -d $f 2>/dev/null; done; true')
    assert set(text.split()) == {'.', '..', 'bin', 'dev', 'etc', 'lib', 'proc', 'run', 'sbin', 'tmp', 'usr', 'var',
                                 'workspace'} | ({'lib32', 'lib64', 'libx32'} & set(text.split()))
    done = sandbox.run('touch /x /usr/x /etc/x /run/x')
    assert done.returncode == 1 and done.stderr.count(b'Read-only file system') == 4


def test_descriptors(sandbox):
    text = sandbox.out('for d in /proc/[0-9]*/fd/*; do readlink $d; done; true')
    for target in text.split():
        assert re.match(r'(socket|pipe|anon_inode):|/dev/null$|/proc/', target), target


def test_no_new_namespaces_nor_tracing(sandbox):
    for cmd in ('unshare -U true', 'unshare -n true', 'bwrap --ro-bind / / true',
                "python3 -c 'import ctypes,sys; sys.exit(ctypes.CDLL(None).ptrace(0,0,0,0) == -1)'"):
        assert sandbox.run(cmd).returncode != 0, cmd


TAKE = '''
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for pid in filter(str.isdigit, os.listdir('/proc')):
    if int(pid) == os.getpid():
        continue
    taken = libc.syscall(438, libc.syscall(434, int(pid), 0), 0, 0)  # pidfd_getfd of pidfd_open
    try:
        os.close(os.open('/proc/' + pid + '/mem', os.O_RDWR))
        print(pid, 'mem')
    except OSError:
        pass
    if taken >= 0:
        print(pid, os.readlink('/proc/self/fd/' + str(taken)))
print('tried')
'''


def test_the_stream_to_the_host_is_out_of_reach(sandbox):
    """No process that holds it may be written to or robbed of it by a command."""
    assert sandbox.out(f'exec python3 -c "{TAKE}"') == 'tried\n'
    assert sandbox.out('kill -9 1; echo up') == 'up\n'
    assert sandbox.out('prlimit --pid 1 --nofile=0 || echo refused; ulimit -n 100; ulimit -n') == 'refused\n100\n'


PROBE = '''
import errno, socket
def why(family, kind=socket.SOCK_STREAM, proto=0):
    try:
        socket.socket(family, kind, proto).close()
    except OSError as error:
        return errno.errorcode[error.errno]
    return 'ok'
print(why(socket.AF_INET), why(socket.AF_UNIX), why(40), why(17, socket.SOCK_RAW), why(38))
server = socket.create_server(('127.0.0.1', 0))
socket.create_connection(('localhost', server.getsockname()[1])).close()
try:
    socket.create_connection(('192.0.2.1', 80), 3)
except OSError as error:
    print(errno.errorcode[error.errno])
'''


def test_network(sandbox):
    text = sandbox.out(f"python3 -c \"{PROBE}\"; tail -n +3 /proc/net/dev | cut -d: -f1")
    assert text.split() == ['ok', 'ok', 'EAFNOSUPPORT', 'EAFNOSUPPORT', 'EAFNOSUPPORT', 'ENETUNREACH', 'lo']


def test_network_when_asked(sandbox):
    assert os.readlink('/proc/self/ns/net') == sandbox.out('readlink /proc/self/ns/net', spec='local:,net=all').strip()
    text = sandbox.out(f"python3 -c \"{PROBE.split('server')[0]}\"", spec='local:,net=all')
    assert text.split()[:2] == ['ok', 'EAFNOSUPPORT']
    for level in ('packages', 'hosts'):
        done = sandbox.run('true', spec=f'local:,net={level}')
        assert done.returncode == 125 and f'net={level} cannot be had'.encode() in done.stderr


def test_limits(sandbox):
    done = sandbox.run('for i in $(seq 40); do sleep 100 & done; wait', spec='local:,pids=20')
    assert b'fork' in done.stderr
    done = sandbox.run("python3 -c 'x = bytearray(300000000)'", spec='local:,memory=100m')
    assert b'MemoryError' in done.stderr
    assert '0\n4096\n' == sandbox.out('ulimit -c; ulimit -n') or int(sandbox.out('ulimit -n')) < 4096
    done = sandbox.run('head -c 3000000 /dev/zero > /tmp/big', spec='local:,tmp=1m')
    assert b'No space left' in done.stderr
    for spec, words in (('local:,cpus=2', b'cannot limit cpus'), ('local:,tmp=x', b'tmp must be a size'),
                        ('local:here', b'takes no target')):
        done = sandbox.run('true', spec=spec)
        assert done.returncode == 125 and words in done.stderr


def make_repository(folder, owner):
    (folder / '.git' / 'hooks').mkdir(parents=True)
    (folder / '.git' / 'config').write_text('[core]\n')
    (folder / '.git' / 'config.worktree').write_text('[core]\n')
    (folder / '.bashrc').write_text('true\n')
    (folder / 'file').write_text('old\n')
    if owner == 'nobody':
        for path in [folder, *folder.rglob('*')]:
            os.chown(path, 65534, 65534)


def test_workspace_rw(sandbox, place):
    folder = place / f'rw-{sandbox.user}'
    make_repository(folder, sandbox.user)
    done = sandbox.run('echo new > file; echo x > .git/index', workspace=folder, mode='rw')
    assert done.returncode == 0, done.stderr
    assert (folder / 'file').read_text() == 'new\n'
    for cmd in ('echo x > .git/hooks/pre-commit', 'echo x >> .git/config', 'echo x >> .git/config.worktree',
                'mv .git/config.worktree c', 'echo x > .bashrc', 'mv .git g',
                'rm -r .git/hooks', 'mv .git/hooks h', 'rm .bashrc', 'mv .bashrc b'):
        assert sandbox.run(cmd, workspace=folder, mode='rw').returncode != 0, cmd
    assert (folder / '.git' / 'config').read_text() == '[core]\n'
    assert os.listdir(folder / '.git' / 'hooks') == []
    assert (folder / '.bashrc').read_text() == 'true\n'


SETUID = '''
import ctypes, errno, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
open('f', 'w').write('x')
fd = os.open('f', os.O_RDWR)
def why(name, result):
    if result != -1 or os.path.exists(name) and os.stat(name).st_mode & 0o4000:
        print(name, 'made')
    return errno.errorcode.get(ctypes.get_errno())
how = struct.pack('QQQ', os.O_CREAT | os.O_RDWR, 0o4755, 0)
print(why('f', libc.chmod(b'f', 0o4755)), why('f', libc.fchmod(fd, 0o4755)),
      why('f', libc.fchmodat(-100, b'f', 0o4755, 0)), why('f', libc.syscall(452, -100, b'f', 0o4755, 0)),
      why('a', libc.open(b'a', os.O_CREAT | os.O_RDWR, 0o4755)), why('b', libc.creat(b'b', 0o4755)),
      why('.', libc.open(b'.', os.O_TMPFILE | os.O_RDWR, 0o4755)), why('c', libc.mknod(b'c', 0o104755, 0)),
      why('d', libc.syscall(437, -100, b'd', how, len(how))),
      why('d', libc.syscall(437, -100, b'd', how, len(how), ctypes.c_long(-1))))
os.close(os.open('f', os.O_RDONLY | os.O_CREAT, 0o755))
os.chmod('.', 0o2755)
if min(libc.open(b'f', os.O_RDONLY, 0o4755), libc.open(b'.', os.O_DIRECTORY, 0o4755)) < 0:
    print('a mode that does not count was refused')
'''


def test_no_setuid_programs_are_left_behind(sandbox, place):
    """In mode rw they would be root's or the user's, for everybody on the host."""
    folder = place / f'setuid-{sandbox.user}'
    make_repository(folder, sandbox.user)
    text = sandbox.out(f'exec python3 -c "{SETUID}"', workspace=folder, mode='rw')
    assert text.split() == 8 * ['EPERM'] + 2 * ['ENOSYS']
    assert not [path for path in folder.rglob('*') if path.stat().st_mode & 0o4000]


def test_workspace_ro(sandbox, place):
    folder = place / f'ro-{sandbox.user}'
    make_repository(folder, sandbox.user)
    assert sandbox.out('cat file', workspace=folder, mode='ro') == 'old\n'
    for cmd in ('echo x > file', 'touch new', 'rm file'):
        assert sandbox.run(cmd, workspace=folder, mode='ro').returncode != 0, cmd


@pytest.mark.skipif(os.geteuid() != 0, reason='root only')
def test_root_only_files(place):
    """Even where the sandbox can see a file, the rights of root do not come along."""
    folder = place / 'secrets'
    folder.mkdir()
    (folder / 'key').write_text('secret')
    os.chmod(folder / 'key', 0o600)
    done = Sandbox(place, 'self').run('cat key', workspace=folder, mode='ro')
    assert done.returncode != 0 and b'Permission denied' in done.stderr


def test_kill_of_the_host(sandbox):
    marker = f'8{random.randrange(10**6)}.5'
    host = subprocess.Popen(sandbox.argv(f'setsid sleep {marker} & (setsid sleep {marker} &); echo up; sleep {marker}'),
                            stdout=subprocess.PIPE)
    assert host.stdout.readline() == b'up\n'
    assert until(lambda: len(processes(marker)) >= 3)
    host.send_signal(signal.SIGKILL)
    host.wait()
    host.stdout.close()
    assert until(lambda: not processes(marker)), processes(marker)


def test_left_over_directories_go(sandbox, place):
    """What a killed host left in TMPDIR is removed by the next; what others use is not."""
    folder = place / f'tmp-{sandbox.user}'
    folder.mkdir()
    os.chmod(folder, 0o777)
    env = {'TMPDIR': str(folder)}
    host = subprocess.Popen(sandbox.argv('echo up; sleep 600'), stdout=subprocess.PIPE, env={**os.environ, **env})
    assert host.stdout.readline() == b'up\n'
    assert len(os.listdir(folder)) == 1
    sandbox.out('mkdir -p a/b/c; chmod 0 a/b; echo x > f', env=env)
    assert len(os.listdir(folder)) == 1
    host.kill()
    host.wait()
    host.stdout.close()
    assert len(os.listdir(folder)) == 1
    sandbox.out('true', env=env)
    assert os.listdir(folder) == []


def test_nothing_left_after_the_end(sandbox, place):
    marker = f'8{random.randrange(10**6)}.25'
    folder = place / f'end-{sandbox.user}'
    folder.mkdir()
    os.chmod(folder, 0o777)
    sandbox.out(f'setsid sleep {marker} > /dev/null & echo x > f; mkdir -p a/b; chmod 0 a; true',
                env={'TMPDIR': str(folder)})
    assert until(lambda: not processes(marker))
    assert os.listdir(folder) == []


@pytest.mark.parametrize('text,words', [
    ('bwrap: Unknown option --disable-userns', 'too old'),
    ('bwrap: No permissions to create new namespace', 'forbidden'),
    ('bwrap: setting up uid map: Permission denied', 'user namespaces'),
    ('bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted', 'network namespaces'),
    ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", '/proc'),
    ('something else', 'something else'),
])
def test_bwrap_that_fails(sandbox, place, text, words):
    """Never without a sandbox: the reason, and what to do."""
    program = place / 'broken-bwrap'
    program.write_text(f'#!/bin/sh\necho "{text}" >&2\nexit 1\n')
    program.chmod(0o755)
    done = sandbox.run('echo ran', spec=f'local:,bwrap={program}')
    assert done.returncode == 125 and b'ran' not in done.stdout
    assert words in done.stderr.decode() and text in done.stderr.decode()


def test_bwrap_missing(sandbox, place):
    if sandbox.user == 'self':
        done = sandbox.run('echo ran', env={'PATH': '/nowhere'})
        assert done.returncode == 125 and b'apt-get install bubblewrap' in done.stderr
    done = sandbox.run('echo ran', spec='local:,bwrap=/no/bwrap')
    assert done.returncode == 125 and b'/no/bwrap is not a program' in done.stderr
    folder = place / f'own-{sandbox.user}'
    folder.mkdir()
    shutil.copy(shutil.which('bwrap'), folder / 'bwrap')
    done = sandbox.run('echo ran', spec=f'local:,bwrap={folder}/bwrap', workspace=folder, mode='ro')
    assert done.returncode == 125 and b'outside of the workspace' in done.stderr


def pack(folder):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode='w:gz') as archive:
        archive.add(folder, '.')
    return base64.b64encode(data.getvalue()).decode()


@pytest.mark.parametrize('seed', range(8))
def test_changes_of_random_trees(place, tmp_path, seed):
    """The tree that the commands left behind is what git apply makes of the old one and the patch."""
    rng = random.Random(seed + 1000)
    test_patch.populate(tmp_path / 'old', rng, 8)
    shutil.copytree(tmp_path / 'old', tmp_path / 'new', symlinks=True)
    test_patch.mutate(tmp_path / 'new', rng)
    for path, (kind, text) in test_patch.snapshot(tmp_path / 'new').items():
        if kind != 'link' and len(text) > 10000:
            (tmp_path / 'new' / path).write_bytes(text[:10000])
    os.chmod(tmp_path / 'old', 0o755)
    done = Sandbox(place, 'self').run(
        f'find . -mindepth 1 -delete; echo {pack(tmp_path / "new")} | base64 -d | tar xz --no-same-owner',
        workspace=tmp_path / 'old', more=['changes'])
    assert done.returncode == 0, done.stderr
    patch = done.stdout.partition(b'=====\n')[2]
    assert patch == test_patch.make_patch(str(tmp_path / 'old'), str(tmp_path / 'new'))
    test_patch.check(tmp_path / 'old', tmp_path / 'new', tmp_path)


def test_many_long_names_are_refused(place):
    """A command that makes them cannot have the host hold more than a bounded amount of names."""
    (place / 'names').mkdir()
    script = """
import os
for i in range(15):
    os.mkdir('d' * 250)
    os.chdir('d' * 250)
for i in range(36000):
    os.close(os.open(str(i), os.O_CREAT))
"""
    done = Sandbox(place, 'self').run(f'python3 -c "{script}"', workspace=place / 'names', more=['changes'])
    assert done.returncode == 125 and b'the names of its files' in done.stderr, done.stderr[-300:]


def test_copy_keeps_modes_and_links(sandbox, place):
    folder = place / f'copy-{sandbox.user}'
    folder.mkdir()
    (folder / 'tool').write_text('#!/bin/sh\necho ran\n')
    (folder / 'tool').chmod(0o755)
    (folder / "it's").write_text('x')
    (folder / 'sub').mkdir()
    (folder / 'sub' / 'up').symlink_to("../it's")
    (folder / 'dangling').symlink_to('/no where')
    (folder / 'empty').mkdir()
    done = sandbox.run("./tool; cat sub/up; readlink dangling; ls -d empty; stat -c %a tool", workspace=folder,
                       more=['changes'])
    assert done.stdout == b'ran\nx/no where\nempty\n755\n=====\n', done.stderr


def test_copy_follows_no_links_that_lead_out(sandbox, place):
    """What they lead to on the host is not the workspace's: the sandbox gets the links, and finds nothing there."""
    folder = place / f'leads-out-{sandbox.user}'
    secret = place / f'secret-{sandbox.user}'
    for each in (folder, secret):
        each.mkdir()
    (secret / 'key').write_text('of the host\n')
    (folder / 'folder').symlink_to(secret)
    (folder / 'file').symlink_to(secret / 'key')
    (folder / 'up').symlink_to(f'../{secret.name}')
    done = sandbox.run('readlink folder file up; cat folder/key file up/key; ls -A', workspace=folder)
    assert done.stdout.decode() == f'{secret}\n{secret}/key\n../{secret.name}\nfile\nfolder\nup\n', done


def test_unreadable_file_is_named(place):
    if os.geteuid() != 0:
        pytest.skip('needs a second user')
    folder = place / 'unreadable'
    folder.mkdir()
    (folder / 'mine').write_text('x')
    (folder / 'mine').chmod(0o600)
    done = Sandbox(place, 'nobody').run('true', workspace=folder)
    assert done.returncode == 125 and b'mine: permission denied' in done.stderr


def test_losing_the_hand(sandbox):
    """A command may kill what is beside it; that ends the machine, by name, and leaves nothing."""
    marker = f'8{random.randrange(10**6)}.75'
    done = sandbox.run(f'setsid sleep {marker} & kill -9 2 3; sleep {marker}')
    assert done.returncode in (124, 125)
    assert until(lambda: not processes(marker))

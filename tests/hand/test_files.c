/* File requests: contents of any size, entries, and paths that stay beneath a root. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client.h"

#include "base/alloc.h"

static struct client hand;
static char dir[64];
static char path_text[8][256];

static int open_hand(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/waldo-hand-XXXXXX");
    assert_non_null(mkdtemp(dir));
    client_open(&hand);
    return 0;
}

static int close_hand(void **state)
{
    waldo__hand_file file = WALDO__HAND_FILE_INIT;

    (void)state;
    file.path = waldo__str(dir);
    file.flags = WALDO_HAND_FILE_RECURSIVE;
    assert_int_equal(client_ended(&hand, client_file(&hand, WALDO_HAND_REMOVE, file))->done.err, 0);
    assert_int_equal(access(dir, F_OK), -1);
    client_close(&hand);
    return 0;
}

/* A path in the test's folder; eight may be in use at once. */
static const char *in_dir(const char *name)
{
    static int next;
    char *text = path_text[next++ % 8];

    snprintf(text, sizeof path_text[0], "%s/%s", dir, name);
    return text;
}

static waldo__hand_file at(const char *name, uint32_t flags)
{
    waldo__hand_file file = WALDO__HAND_FILE_INIT;

    file.path = waldo__str(in_dir(name));
    file.flags = flags;
    return file;
}

/* Beneath the test's folder. */
static waldo__hand_file beneath(const char *name, uint32_t flags)
{
    waldo__hand_file file = WALDO__HAND_FILE_INIT;

    file.path = waldo__str(name);
    file.root = waldo__str(dir);
    file.flags = flags;
    return file;
}

static struct record *ask(enum waldo_hand_request type, waldo__hand_file file)
{
    return client_ended(&hand, client_file(&hand, type, file));
}

static struct record *write_file(waldo__hand_file file, waldo_str bytes)
{
    uint32_t id = client_file(&hand, WALDO_HAND_WRITE, file);

    client_write(&hand, id, bytes);
    return client_ended(&hand, id);
}

static void assert_done(const struct record *r, int err, int where)
{
    assert_int_equal(r->dones, 1);
    assert_int_equal(r->done.err, err);
    assert_int_equal(r->done.where, where);
}

static unsigned mode_of(const char *name)
{
    struct stat st;

    assert_int_equal(lstat(in_dir(name), &st), 0);
    return st.st_mode & 07777;
}

static void test_sizes(void **state)
{
    static const size_t sizes[] = { 0, 1, 95000, 98304, 98305, 131072, 262144, 262145, 5000000 };
    char *bytes = malloc(5000000);
    unsigned seed = 1;

    (void)state;
    assert_non_null(bytes);
    for (size_t i = 0; i < 5000000; i++) {
        seed = seed * 1103515245u + 12345u;
        bytes[i] = (char)(seed >> 16);
    }
    for (size_t i = 0; i < WALDO__COUNT(sizes); i++) {
        struct record *r =
            write_file(at("f", i % 2 ? WALDO_HAND_FILE_ATOMIC : 0), waldo__strn(bytes, sizes[i]));

        assert_done(r, 0, 0);
        assert_int_equal(r->done.value, sizes[i]);
        r = ask(WALDO_HAND_READ, at("f", 0));
        assert_done(r, 0, 0);
        assert_int_equal(r->done.value, sizes[i]);
        assert_int_equal(r->data.len, sizes[i]);
        assert_memory_equal(waldo__buf_str(&r->data).ptr, bytes, sizes[i]);
    }
    free(bytes);
}

static void test_ranges(void **state)
{
    waldo__hand_file file = at("f", 0);
    struct record *r;

    (void)state;
    write_file(file, WALDO__S("0123456789"));
    file.offset = 3;
    file.limit = 4;
    r = ask(WALDO_HAND_READ, file);
    assert_string_equal(waldo__buf_str(&r->data).ptr, "3456");
    assert_int_equal(r->done.flags, WALDO_HAND_DONE_MORE);
    assert_int_equal(r->done.value, 10);
    file.limit = 7;
    r = ask(WALDO_HAND_READ, file);
    assert_string_equal(waldo__buf_str(&r->data).ptr, "3456789");
    assert_int_equal(r->done.flags, 0);
    file.offset = 100;
    r = ask(WALDO_HAND_READ, file);
    assert_done(r, 0, 0);
    assert_int_equal(r->data.len, 0);
    file.offset = 0;
    file.limit = 0;
    r = ask(WALDO_HAND_READ, file);
    assert_int_equal(r->data.len, 0);
    assert_int_equal(r->done.value, 10);
    /* A sparse file of 2 GiB: only the range is read. */
    assert_int_equal(truncate(in_dir("f"), (off_t)2 << 30), 0);
    file.limit = 100;
    r = ask(WALDO_HAND_READ, file);
    assert_int_equal(r->data.len, 100);
    assert_int_equal(r->done.value, (uint64_t)2 << 30);
    /* A file without a size. */
    file = WALDO__HAND_FILE_INIT;
    file.path = WALDO__S("/proc/self/stat");
    assert_true(ask(WALDO_HAND_READ, file)->data.len > 20);
}

static void test_read_errors(void **state)
{
    waldo__hand_file file = WALDO__HAND_FILE_INIT;

    (void)state;
    assert_done(ask(WALDO_HAND_READ, at("none", 0)), ENOENT, WALDO_HAND_WHERE_PATH);
    assert_done(ask(WALDO_HAND_READ, at("", 0)), EISDIR, WALDO_HAND_WHERE_PATH);
    assert_int_equal(mkfifo(in_dir("fifo"), 0644), 0);
    assert_done(ask(WALDO_HAND_READ, at("fifo", 0)), EINVAL, WALDO_HAND_WHERE_PATH);
    file.path = WALDO__S("/dev/zero");
    assert_done(ask(WALDO_HAND_READ, file), EINVAL, WALDO_HAND_WHERE_PATH);
    assert_int_equal(symlink("none", in_dir("link")), 0);
    assert_done(ask(WALDO_HAND_READ, at("link", WALDO_HAND_FILE_NOFOLLOW)), ELOOP,
                WALDO_HAND_WHERE_PATH);
    assert_done(ask(WALDO_HAND_READ, at("f", WALDO_HAND_FILE_ATOMIC)), EOPNOTSUPP,
                WALDO_HAND_WHERE_UNSUPPORTED);
}

static void test_write_modes(void **state)
{
    waldo__hand_file file = at("sh", 0);

    (void)state;
    write_file(file, WALDO__S("1"));
    assert_int_equal(mode_of("sh"), 0644);
    assert_int_equal(chmod(in_dir("sh"), 0751), 0);
    write_file(file, WALDO__S("2"));
    assert_int_equal(mode_of("sh"), 0751);
    file.flags = WALDO_HAND_FILE_ATOMIC;
    write_file(file, WALDO__S("3"));
    assert_int_equal(mode_of("sh"), 0751);
    /* As when the file itself is written: who replaces a program does not become its owner. */
    assert_int_equal(chmod(in_dir("sh"), 04751), 0);
    write_file(file, WALDO__S("4"));
    assert_int_equal(mode_of("sh"), 0751);
    file.has_mode = 1;
    file.mode = 0666;
    write_file(file, WALDO__S("4"));
    assert_int_equal(mode_of("sh"), 0666);
    file.flags = 0;
    file.mode = 0600;
    write_file(file, WALDO__S("5"));
    assert_int_equal(mode_of("sh"), 0600);
    file = at("sh", WALDO_HAND_FILE_APPEND);
    write_file(file, WALDO__S("6"));
    assert_string_equal(waldo__buf_str(&ask(WALDO_HAND_READ, at("sh", 0))->data).ptr, "56");
}

static void test_swap(void **state)
{
    const uint32_t flags = WALDO_HAND_FILE_ATOMIC | WALDO_HAND_FILE_SWAP;
    waldo__buf out = WALDO__BUF_INIT(1024);
    struct stat before, after;
    uint32_t id;

    (void)state;
    assert_done(write_file(at("f", flags), WALDO__S("1")), 0, 0);
    assert_int_equal(stat(in_dir("f"), &before), 0);
    assert_int_equal(chmod(in_dir("f"), 0751), 0);
    assert_int_equal(link(in_dir("f"), in_dir("g")), 0);
    assert_done(write_file(at("f", flags), WALDO__S("22")), 0, 0);
    assert_int_equal(mode_of("f"), 0751);
    assert_int_equal(stat(in_dir("f"), &after), 0);
    assert_true(after.st_ino != before.st_ino);
    assert_string_equal(waldo__buf_str(&ask(WALDO_HAND_READ, at("f", 0))->data).ptr, "22");
    assert_string_equal(waldo__buf_str(&ask(WALDO_HAND_READ, at("g", 0))->data).ptr, "1");
    /* A link is replaced; where it led to is left alone. */
    assert_int_equal(unlink(in_dir("f")), 0);
    assert_int_equal(symlink("g", in_dir("f")), 0);
    assert_done(write_file(at("f", flags), WALDO__S("3")), 0, 0);
    assert_int_equal(lstat(in_dir("f"), &after), 0);
    assert_true(S_ISREG(after.st_mode));
    assert_string_equal(waldo__buf_str(&ask(WALDO_HAND_READ, at("g", 0))->data).ptr, "1");
    /* What is neither file nor link by then is no victim. */
    assert_int_equal(unlink(in_dir("f")), 0);
    id = client_file(&hand, WALDO_HAND_WRITE, at("f", flags));
    waldo__hand_put_write_data(&out, id, WALDO__S("half"));
    client_send(&hand, &out);
    assert_int_equal(ask(WALDO_HAND_LIST, at("", 0))->done.value, 2);
    assert_int_equal(mkdir(in_dir("f"), 0700), 0);
    client_write(&hand, id, WALDO__S("more"));
    assert_done(client_ended(&hand, id), EISDIR, WALDO_HAND_WHERE_IO);
    assert_int_equal(stat(in_dir("f"), &after), 0);
    assert_true(S_ISDIR(after.st_mode));
    assert_done(write_file(at("g", flags | WALDO_HAND_FILE_EXCL), WALDO__S("x")), EEXIST,
                WALDO_HAND_WHERE_PATH);
    /* No temporary file is left by any of it. */
    assert_int_equal(ask(WALDO_HAND_LIST, at("", 0))->done.value, 2);
}

static void test_write_errors(void **state)
{
    waldo__hand_file file = WALDO__HAND_FILE_INIT;
    struct record *r;

    (void)state;
    assert_done(write_file(at("a/b", 0), WALDO__S("x")), ENOENT, WALDO_HAND_WHERE_PATH);
    assert_done(write_file(at("a/b/c", WALDO_HAND_FILE_PARENTS), WALDO__S("x")), 0, 0);
    assert_done(write_file(at("a/b", 0), WALDO__S("x")), EISDIR, WALDO_HAND_WHERE_PATH);
    assert_done(write_file(at("a/b", WALDO_HAND_FILE_ATOMIC), WALDO__S("x")), EISDIR,
                WALDO_HAND_WHERE_PATH);
    assert_done(write_file(at("a/b/c/d", WALDO_HAND_FILE_PARENTS), WALDO__S("x")), ENOTDIR,
                WALDO_HAND_WHERE_PATH);
    assert_done(write_file(at("a/b/c", WALDO_HAND_FILE_EXCL), WALDO__S("x")), EEXIST,
                WALDO_HAND_WHERE_PATH);
    assert_done(
        write_file(at("a/b/c", WALDO_HAND_FILE_EXCL | WALDO_HAND_FILE_ATOMIC), WALDO__S("x")),
        EEXIST, WALDO_HAND_WHERE_PATH);
    assert_done(write_file(at("x", WALDO_HAND_FILE_APPEND | WALDO_HAND_FILE_ATOMIC), WALDO__S("x")),
                EINVAL, WALDO_HAND_WHERE_REQUEST);
    file.path = WALDO__S("/dev/full");
    assert_done(write_file(file, WALDO__S("x")), EINVAL, WALDO_HAND_WHERE_PATH);
    /* Bytes for a write that failed are thrown away, the next requests go on. */
    r = ask(WALDO_HAND_LIST, at("a/b", 0));
    assert_done(r, 0, 0);
    assert_int_equal(r->done.value, 1);
}

static void test_full_disk(void **state)
{
    static char bytes[200000];
    waldo__hand_file file = WALDO__HAND_FILE_INIT;
    char mount[300];
    struct record *r;

    (void)state;
    if (geteuid() != 0) {
        skip();
    }
    snprintf(mount, sizeof mount, "mkdir %s/small && mount -t tmpfs -o size=64k none %s/small", dir,
             dir);
    r = client_ended(&hand, client_sh(&hand, mount, WALDO__HAND_RUN_INIT));
    if (r->exit.value != 0) {
        skip();
    }
    file = at("small/f", WALDO_HAND_FILE_ATOMIC);
    r = write_file(file, waldo__strn(bytes, sizeof bytes));
    assert_done(r, ENOSPC, WALDO_HAND_WHERE_IO);
    assert_int_equal(ask(WALDO_HAND_LIST, at("small", 0))->done.value, 0);
    snprintf(mount, sizeof mount, "umount %s/small", dir);
    client_ended(&hand, client_sh(&hand, mount, WALDO__HAND_RUN_INIT));
}

static void test_unfinished_write_leaves_nothing(void **state)
{
    uint32_t id = client_file(&hand, WALDO_HAND_WRITE, at("f", WALDO_HAND_FILE_ATOMIC));
    waldo__buf out = WALDO__BUF_INIT(1024);
    struct record *r;

    (void)state;
    waldo__hand_put_write_data(&out, id, WALDO__S("half"));
    client_send(&hand, &out);
    assert_int_equal(ask(WALDO_HAND_LIST, at("", 0))->done.value, 1);
    client_cancel(&hand, id, 0);
    client_write(&hand, id, WALDO__S("more"));
    r = client_ended(&hand, id);
    assert_done(r, ECANCELED, WALDO_HAND_WHERE_CANCELLED);
    assert_int_equal(ask(WALDO_HAND_LIST, at("", 0))->done.value, 0);
    assert_int_equal(r->after_end, 0);
    id = client_file(&hand, WALDO_HAND_WRITE, at("f", WALDO_HAND_FILE_ATOMIC));
    assert_int_equal(ask(WALDO_HAND_LIST, at("", 0))->done.value, 1);
    client_close(&hand);
    client_open(&hand);
    assert_int_equal(ask(WALDO_HAND_LIST, at("", 0))->done.value, 0);
}

static void test_stat(void **state)
{
    waldo__hand_entry entry;
    struct record *r;
    waldo_str rest;

    (void)state;
    write_file(at("f", 0), WALDO__S("12345"));
    assert_int_equal(symlink("f", in_dir("link")), 0);
    r = ask(WALDO_HAND_STAT, at("link", 0));
    rest = waldo__buf_str(&r->data);
    assert_int_equal(waldo__hand_next_entry(&rest, &entry), WALDO_OK);
    assert_int_equal(entry.kind, WALDO_HAND_KIND_FILE);
    assert_int_equal(entry.size, 5);
    assert_int_equal(entry.mode, 0644);
    assert_int_equal(entry.uid, geteuid());
    assert_true(entry.mtime_s > 1500000000);
    assert_int_equal(entry.name.len + entry.target.len, 0);
    assert_int_equal(rest.len, 0);
    r = ask(WALDO_HAND_STAT, at("link", WALDO_HAND_FILE_NOFOLLOW));
    rest = waldo__buf_str(&r->data);
    assert_int_equal(waldo__hand_next_entry(&rest, &entry), WALDO_OK);
    assert_int_equal(entry.kind, WALDO_HAND_KIND_LINK);
    assert_true(waldo__str_is(entry.target, "f"));
    r = ask(WALDO_HAND_STAT, at("none", 0));
    assert_done(r, ENOENT, WALDO_HAND_WHERE_PATH);
    assert_int_equal(r->data.len, 0);
}

static void test_list(void **state)
{
    static const char script[] =
        "cd %s && mkdir d && i=0 && while [ $i -lt 3000 ]; do "
        "echo x > name-$i-`printf %%0200d 0`; i=$((i + 1)); done && ln -s /t l";
    waldo__hand_file file = at("", 0);
    char text[300];
    unsigned char seen[3000] = { 0 };
    waldo__hand_entry entry;
    int others = 0;
    struct record *r;
    waldo_str rest;

    (void)state;
    snprintf(text, sizeof text, script, dir);
    assert_int_equal(client_ended(&hand, client_sh(&hand, text, WALDO__HAND_RUN_INIT))->exit.value,
                     0);
    r = ask(WALDO_HAND_LIST, file);
    assert_done(r, 0, 0);
    assert_int_equal(r->done.value, 3002);
    for (rest = waldo__buf_str(&r->data); waldo__hand_next_entry(&rest, &entry) == WALDO_OK;) {
        if (waldo__str_starts(entry.name, "name-")) {
            seen[strtol(entry.name.ptr + 5, NULL, 10)]++;
            assert_int_equal(entry.size, 2);
        } else if (waldo__str_is(entry.name, "d")) {
            assert_int_equal(entry.kind, WALDO_HAND_KIND_DIR);
            others++;
        } else if (waldo__str_is(entry.name, "l")) {
            assert_true(waldo__str_is(entry.target, "/t"));
            others++;
        }
    }
    assert_int_equal(rest.len, 0);
    assert_int_equal(others, 2);
    for (size_t i = 0; i < sizeof seen; i++) {
        assert_int_equal(seen[i], 1);
    }
    file.limit = 3;
    r = ask(WALDO_HAND_LIST, file);
    assert_int_equal(r->done.value, 3);
    assert_int_equal(r->done.flags, WALDO_HAND_DONE_MORE);
    file.limit = 3002;
    assert_int_equal(ask(WALDO_HAND_LIST, file)->done.flags, 0);
    assert_done(ask(WALDO_HAND_LIST, at("none", 0)), ENOENT, WALDO_HAND_WHERE_PATH);
    assert_done(ask(WALDO_HAND_LIST, at("l", 0)), ENOENT, WALDO_HAND_WHERE_PATH);
}

static void test_folders(void **state)
{
    waldo__hand_file file = at("a", 0);

    (void)state;
    file.has_mode = 1;
    file.mode = 0777;
    assert_done(ask(WALDO_HAND_MKDIR, file), 0, 0);
    assert_int_equal(mode_of("a"), 0777);
    assert_done(ask(WALDO_HAND_MKDIR, at("a", 0)), EEXIST, WALDO_HAND_WHERE_PATH);
    assert_done(ask(WALDO_HAND_MKDIR, at("a", WALDO_HAND_FILE_PARENTS)), 0, 0);
    assert_done(ask(WALDO_HAND_MKDIR, at("b/c", 0)), ENOENT, WALDO_HAND_WHERE_PATH);
    assert_done(ask(WALDO_HAND_MKDIR, at("b/c//d/./e/", WALDO_HAND_FILE_PARENTS)), 0, 0);
    assert_int_equal(mode_of("b/c/d/e"), 0755);
    write_file(at("b/f", 0), WALDO__S("x"));
    assert_done(ask(WALDO_HAND_MKDIR, at("b/f", WALDO_HAND_FILE_PARENTS)), EEXIST,
                WALDO_HAND_WHERE_PATH);
    assert_done(ask(WALDO_HAND_MKDIR, at("b/.", 0)), EINVAL, WALDO_HAND_WHERE_PATH);
}

static void test_remove(void **state)
{
    char outside[] = "/tmp/waldo-hand-XXXXXX", text[600];
    struct record *r;

    (void)state;
    assert_non_null(mkdtemp(outside));
    snprintf(text, sizeof text,
             "cd %s && touch %s/kept && mkdir -p t/u/v/w t/x && touch t/1 t/u/2 t/u/v/w/3 && "
             "ln -s %s t/u/out && ln -s . t/u/self && i=0 && "
             "while [ $i -lt 2000 ]; do : > t/x/$i; i=$((i + 1)); done",
             dir, outside, outside);
    assert_int_equal(client_ended(&hand, client_sh(&hand, text, WALDO__HAND_RUN_INIT))->exit.value,
                     0);
    assert_done(ask(WALDO_HAND_REMOVE, at("t", 0)), ENOTEMPTY, WALDO_HAND_WHERE_PATH);
    r = ask(WALDO_HAND_REMOVE, at("t", WALDO_HAND_FILE_RECURSIVE));
    assert_done(r, 0, 0);
    assert_int_equal(r->done.value, 2010);
    assert_int_equal(access(in_dir("t"), F_OK), -1);
    snprintf(text, sizeof text, "%s/kept", outside);
    assert_int_equal(unlink(text), 0);
    assert_int_equal(rmdir(outside), 0);
    assert_done(ask(WALDO_HAND_REMOVE, at("t", WALDO_HAND_FILE_RECURSIVE)), ENOENT,
                WALDO_HAND_WHERE_PATH);
    assert_done(ask(WALDO_HAND_REMOVE, at("..", WALDO_HAND_FILE_RECURSIVE)), EINVAL,
                WALDO_HAND_WHERE_PATH);
    /* Deeper than the hand goes: refused by name, and a shell can still remove it. */
    snprintf(text, sizeof text,
             "cd %s && i=0 && while [ $i -lt 120 ]; do mkdir d && cd d; i=$((i + 1)); done", dir);
    client_ended(&hand, client_sh(&hand, text, WALDO__HAND_RUN_INIT));
    assert_done(ask(WALDO_HAND_REMOVE, at("d", WALDO_HAND_FILE_RECURSIVE)), ELOOP,
                WALDO_HAND_WHERE_PATH);
    snprintf(text, sizeof text, "rm -r %s/d", dir);
    assert_int_equal(client_ended(&hand, client_sh(&hand, text, WALDO__HAND_RUN_INIT))->exit.value,
                     0);
}

static void test_rename(void **state)
{
    waldo__hand_file file = at("a", 0);

    (void)state;
    write_file(at("a", 0), WALDO__S("A"));
    write_file(at("b", 0), WALDO__S("B"));
    file.to = waldo__str(in_dir("b"));
    file.flags = WALDO_HAND_FILE_EXCL;
    assert_done(ask(WALDO_HAND_RENAME, file), EEXIST, WALDO_HAND_WHERE_IO);
    file.flags = 0;
    assert_done(ask(WALDO_HAND_RENAME, file), 0, 0);
    assert_string_equal(waldo__buf_str(&ask(WALDO_HAND_READ, at("b", 0))->data).ptr, "A");
    assert_done(ask(WALDO_HAND_RENAME, file), ENOENT, WALDO_HAND_WHERE_IO);
    file = at("b", 0);
    file.to = waldo__str(in_dir("no/b"));
    assert_done(ask(WALDO_HAND_RENAME, file), ENOENT, WALDO_HAND_WHERE_TO);
}

static void test_beneath(void **state)
{
    static const char *const outside[] = { "link/passwd", "abs", "../x", "in/../../x",
                                           "/etc/passwd" };
    waldo__hand_file file;

    (void)state;
    if ((hand.hello.features & WALDO_HAND_FEATURE_BENEATH) == 0) {
        skip();
    }
    assert_int_equal(symlink("/etc", in_dir("link")), 0);
    assert_int_equal(symlink("/etc/passwd", in_dir("abs")), 0);
    assert_int_equal(symlink("in", in_dir("inner")), 0);
    assert_int_equal(mkdir(in_dir("in"), 0755), 0);
    for (size_t i = 0; i < WALDO__COUNT(outside); i++) {
        assert_done(ask(WALDO_HAND_READ, beneath(outside[i], 0)), EXDEV, WALDO_HAND_WHERE_PATH);
        assert_done(ask(WALDO_HAND_STAT, beneath(outside[i], 0)), EXDEV, WALDO_HAND_WHERE_PATH);
        assert_done(write_file(beneath(outside[i], 0), WALDO__S("x")), EXDEV,
                    WALDO_HAND_WHERE_PATH);
    }
    assert_done(ask(WALDO_HAND_LIST, beneath("link", 0)), EXDEV, WALDO_HAND_WHERE_PATH);
    assert_done(ask(WALDO_HAND_MKDIR, beneath("link/d", WALDO_HAND_FILE_PARENTS)), EXDEV,
                WALDO_HAND_WHERE_PATH);
    assert_done(ask(WALDO_HAND_REMOVE, beneath("link/passwd", 0)), EXDEV, WALDO_HAND_WHERE_PATH);
    file = beneath("in", 0);
    file.to = WALDO__S("link/in");
    assert_done(ask(WALDO_HAND_RENAME, file), EXDEV, WALDO_HAND_WHERE_TO);
    /* A link that stays inside works, and so do new folders. */
    assert_done(write_file(beneath("inner/new/f", WALDO_HAND_FILE_PARENTS | WALDO_HAND_FILE_ATOMIC),
                           WALDO__S("inside")),
                0, 0);
    assert_string_equal(waldo__buf_str(&ask(WALDO_HAND_READ, at("in/new/f", 0))->data).ptr,
                        "inside");
    /* An atomic write replaces the link itself, so it does not lead out either. */
    assert_done(write_file(beneath("abs", WALDO_HAND_FILE_ATOMIC), WALDO__S("x")), 0, 0);
    assert_string_equal(waldo__buf_str(&ask(WALDO_HAND_READ, at("abs", 0))->data).ptr, "x");
    assert_done(ask(WALDO_HAND_REMOVE, beneath("link", WALDO_HAND_FILE_RECURSIVE)), 0, 0);
    file = beneath("x", 0);
    file.root = WALDO__S("/no/such/root");
    assert_done(ask(WALDO_HAND_READ, file), ENOENT, WALDO_HAND_WHERE_ROOT);
}

/* From here on the hands of this program are without openat2. */
static void test_beneath_without_openat2(void **state)
{
    static const char *const outside[] = { "../x", "in/../../x", "/etc/passwd", "in/.." };
    static const char *const links[] = { "link/passwd", "abs", "inner/f" };
    waldo__hand_file file;

    close_hand(state);
    client_without_openat2 = 1;
    open_hand(state);
    assert_int_equal(hand.hello.features & WALDO_HAND_FEATURE_BENEATH, 0);
    assert_int_equal(symlink("/etc", in_dir("link")), 0);
    assert_int_equal(symlink("/etc/passwd", in_dir("abs")), 0);
    assert_int_equal(symlink("in", in_dir("inner")), 0);
    assert_done(write_file(beneath("in//new/./f", WALDO_HAND_FILE_PARENTS), WALDO__S("inside")), 0,
                0);
    assert_done(write_file(beneath("in/f", WALDO_HAND_FILE_ATOMIC), WALDO__S("x")), 0, 0);
    assert_string_equal(waldo__buf_str(&ask(WALDO_HAND_READ, beneath("in/new/f", 0))->data).ptr,
                        "inside");
    for (size_t i = 0; i < WALDO__COUNT(outside); i++) {
        assert_int_not_equal(ask(WALDO_HAND_READ, beneath(outside[i], 0))->done.err, 0);
        assert_int_not_equal(write_file(beneath(outside[i], 0), WALDO__S("x"))->done.err, 0);
    }
    for (size_t i = 0; i < WALDO__COUNT(links); i++) {
        int err = i == 1 ? ELOOP : ENOTDIR;

        assert_done(ask(WALDO_HAND_READ, beneath(links[i], 0)), err, WALDO_HAND_WHERE_PATH);
        assert_done(write_file(beneath(links[i], 0), WALDO__S("x")), err, WALDO_HAND_WHERE_PATH);
    }
    assert_done(ask(WALDO_HAND_LIST, beneath("link", 0)), ENOTDIR, WALDO_HAND_WHERE_PATH);
    file = beneath("in/f", 0);
    file.to = WALDO__S("link/f");
    assert_done(ask(WALDO_HAND_RENAME, file), ENOTDIR, WALDO_HAND_WHERE_TO);
    file.to = WALDO__S("g");
    assert_done(ask(WALDO_HAND_RENAME, file), 0, 0);
    assert_done(ask(WALDO_HAND_STAT, beneath("g", 0)), 0, 0);
    assert_done(ask(WALDO_HAND_REMOVE, beneath("in", WALDO_HAND_FILE_RECURSIVE)), 0, 0);
    assert_done(ask(WALDO_HAND_LIST, beneath(".", 0)), 0, 0);
    assert_int_equal(access("/etc/passwd", F_OK), 0);
}

static void test_many_reads_at_once(void **state)
{
    uint32_t ids[WALDO_HAND_OPS_MAX + 8];
    char *bytes = calloc(1, 1000000);
    int refused = 0;

    (void)state;
    write_file(at("f", 0), waldo__strn(bytes, 1000000));
    free(bytes);
    for (size_t i = 0; i < WALDO__COUNT(ids); i++) {
        ids[i] = client_file(&hand, WALDO_HAND_READ, at("f", 0));
    }
    for (size_t i = 0; i < WALDO__COUNT(ids); i++) {
        struct record *r = client_ended(&hand, ids[i]);

        if (r->done.err != 0) {
            assert_done(r, EAGAIN, WALDO_HAND_WHERE_LIMIT);
            refused++;
        } else {
            assert_int_equal(r->data.len, 1000000);
        }
    }
    assert_true(refused <= 8);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_hand, close_hand)
        CASE(test_sizes),
        CASE(test_ranges),
        CASE(test_read_errors),
        CASE(test_write_modes),
        CASE(test_swap),
        CASE(test_write_errors),
        CASE(test_full_disk),
        CASE(test_unfinished_write_leaves_nothing),
        CASE(test_stat),
        CASE(test_list),
        CASE(test_folders),
        CASE(test_remove),
        CASE(test_rename),
        CASE(test_beneath),
        CASE(test_many_reads_at_once),
        CASE(test_beneath_without_openat2),
    };

    client_program = argc > 1 ? argv[1] : "waldo-hand";
    return !!cmocka_run_group_tests(tests, NULL, NULL);
}

/* Workspaces as archives: there and back, and archives that mean harm. */
#include "contract.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/rand.h"
#include "codec/tar.h"
#include "codec/untar.h"

#define CASE(function) cmocka_unit_test_setup_teardown(function, contract_setup, contract_teardown)

enum { TEXT_MAX = 1 << 20, BIG = 9000000 };

static int has_links(const contract *c)
{
    return offers(c, WALDO_BACKEND_CHANNEL); /* real files and a real shell */
}

static void took_archive(void *userdata, waldo_status status, waldo_str archive,
                         const waldo_error *error)
{
    took_patch(userdata, status, archive, error);
}

static void pack_of(contract *c, waldo_sandbox *sandbox, const char *path, outcome *out)
{
    outcome_init(out);
    if (path == NULL) {
        waldo_sandbox_snapshot(sandbox, took_archive, out);
    } else {
        waldo_sandbox_pack(sandbox, path, took_archive, out);
    }
    assert_int_equal(out->count, 0);
    drive(c, out);
}

static void snapshot_of(contract *c, waldo_sandbox *sandbox, outcome *out)
{
    pack_of(c, sandbox, NULL, out);
    assert_string_equal(out->message, "");
    assert_int_equal(out->status, WALDO_OK);
}

static waldo_status restore(contract *c, waldo_sandbox *sandbox, waldo_str archive, char *message)
{
    waldo_status status;
    outcome out;

    outcome_init(&out);
    waldo_sandbox_restore(sandbox, archive, took_done, &out);
    assert_int_equal(out.count, 0);
    drive(c, &out);
    status = out.status;
    if (message != NULL) {
        memcpy(message, out.message, sizeof out.message);
    } else {
        assert_string_equal(out.message, "");
    }
    outcome_free(&out);
    return status;
}

static void shell(contract *c, waldo_sandbox *sandbox, const char *cmd)
{
    waldo_exec_result *result = NULL;
    waldo_error *error = NULL;

    if (waldo_sandbox_exec_wait(sandbox, &WALDO_EXEC(.cmd = cmd), &result, &error) != WALDO_OK ||
        result->exit_code != 0) {
        fail_msg("%s: %s %.*s", cmd, waldo_error_message(error),
                 result != NULL ? (int)result->err.bytes.len : 0,
                 result != NULL ? result->err.bytes.ptr : "");
    }
    waldo_exec_result_free(result);
    (void)c;
}

/* ---- what a workspace holds, as text ---- */

typedef struct listing {
    waldo__buf text;
    int done;
} listing;

static void took_all(void *userdata, waldo_status status, const waldo_file_info *infos,
                     size_t count, const waldo_error *error)
{
    listing *list = userdata;

    list->done = status == WALDO_OK ? 1 : -1;
    if (error != NULL) {
        print_error("%s\n", waldo_error_message(error));
    }
    for (size_t i = 0; i < count; i++) {
        waldo__buf_printf(&list->text, "%s %o %llu @%lld %s\n", infos[i].name.ptr, infos[i].mode,
                          (unsigned long long)(S_ISDIR(infos[i].mode) ? 0 : infos[i].bytes),
                          (long long)(infos[i].mtime_ns / 1000000000), infos[i].link_target.ptr);
    }
}

/* Names, modes, sizes, times and targets; the archive of a second look has the contents. */
static char *listed(contract *c, waldo_sandbox *sandbox)
{
    listing list = { .text = WALDO__BUF_INIT(TEXT_MAX) };

    waldo__sandbox_list(sandbox, ".", 1, 10000, took_all, &list);
    while (!list.done) {
        assert_int_equal(waldo_runtime_step(c->rt, 60000), WALDO_OK);
    }
    assert_int_equal(list.done, 1);
    waldo__buf_puts(&list.text, "");
    return waldo__buf_take(&list.text, NULL);
}

static void expect_same(contract *c, waldo_sandbox *sandbox, const char *before, waldo_str archive)
{
    char *after = listed(c, sandbox);
    outcome out;

    assert_string_equal(after, before);
    snapshot_of(c, sandbox, &out);
    assert_int_equal(out.bytes.len, archive.len);
    assert_memory_equal(out.bytes.ptr, archive.ptr, archive.len);
    outcome_free(&out);
    waldo__free(after);
}

/* A tree with everything that is awkward. */
static void make_tree(contract *c, waldo_sandbox *sandbox)
{
    char *bytes = waldo__alloc(BIG);
    outcome out;

    waldo__random(bytes, BIG);
    outcome_init(&out);
    waldo_sandbox_write(sandbox, "big", waldo__strn(bytes, BIG), 0, took_done, &out);
    drive(c, &out);
    assert_int_equal(out.status, WALDO_OK);
    outcome_free(&out);
    waldo__free(bytes);
    outcome_init(&out);
    waldo_sandbox_write(sandbox, "bin/tool", waldo__str("#!/bin/sh\n"), 0755, took_done, &out);
    drive(c, &out);
    outcome_free(&out);
    outcome_init(&out);
    waldo_sandbox_write(sandbox, "-dash $it's", waldo__str("x"), 0600, took_done, &out);
    drive(c, &out);
    outcome_free(&out);
    shell(c, sandbox, "mkdir -p empty deep/er; echo plain > deep/er/file; echo -n '' > nothing");
    if (has_links(c)) {
        shell(c, sandbox,
              "ln -s bin/tool link; ln -s /bin/sh outside; ln -s nowhere 'dangling it'\\''s'; "
              "n=nnnnnnnnnnnnnnnnnnnn; n=$n$n$n$n$n$n; echo long > deep/$n; ln -s $n$n long-link; "
              "mkdir -p $n/$n/$n; echo x > $n/$n/$n/f; "
              "echo newline > \"a\nb\"; printf bytes > \"$(printf '\\377\\376')\"; "
              "mkdir locked; echo in > locked/in; chmod 444 locked/in; chmod 2750 deep; "
              "chmod 4711 bin/tool; touch -d @1111111111 deep/er/file; "
              "touch -h -d @1222222222 link; touch -d @1333333333 empty; chmod 555 locked; "
              "touch -d @999 big locked; chmod 0 nothing; chmod 1777 empty; chmod 644 nothing");
    } else {
        shell(c, sandbox, "touch -d @1111111111 deep/er/file big");
    }
}

/* Write, snapshot, change, restore; and once more, in another machine: nothing is lost. */
static void there_and_back(void **state)
{
    contract *c = *state;
    waldo_sandbox *other = other_sandbox(c, "", NULL, WALDO_WORKSPACE_COPY);
    outcome first, second;
    char *before, *again;

    make_tree(c, c->sandbox);
    before = listed(c, c->sandbox);
    assert_non_null(strstr(before, "empty 4"));
    snapshot_of(c, c->sandbox, &first);
    shell(c, c->sandbox,
          "rm -r bin; echo other > deep/er/file; mkdir new; echo x > new/file; "
          "rm big; mkdir big; echo x > big/inside");
    assert_int_equal(restore(c, c->sandbox, waldo__buf_str(&first.bytes), NULL), WALDO_OK);
    expect_same(c, c->sandbox, before, waldo__buf_str(&first.bytes));

    shell(c, c->sandbox, "echo more > second; mkdir -p empty2; touch -d @1444444444 second empty2");
    again = listed(c, c->sandbox);
    snapshot_of(c, c->sandbox, &second);
    assert_int_equal(restore(c, other, waldo__buf_str(&second.bytes), NULL), WALDO_OK);
    expect_same(c, other, again, waldo__buf_str(&second.bytes));
    assert_int_equal(restore(c, other, waldo__buf_str(&first.bytes), NULL), WALDO_OK);
    expect_same(c, other, before, waldo__buf_str(&first.bytes));

    outcome_free(&first);
    outcome_free(&second);
    waldo__free(before);
    waldo__free(again);
    close_sandbox(c, other);
}

static void empty_workspaces(void **state)
{
    contract *c = *state;
    outcome out;
    char *text;

    snapshot_of(c, c->sandbox, &out);
    assert_int_equal(out.bytes.len, 1024);
    shell(c, c->sandbox, "mkdir -p a/b; echo x > a/b/c");
    assert_int_equal(restore(c, c->sandbox, waldo__buf_str(&out.bytes), NULL), WALDO_OK);
    text = listed(c, c->sandbox);
    assert_string_equal(text, "");
    waldo__free(text);
    outcome_free(&out);
}

static void many_files(void **state)
{
    contract *c = *state;
    waldo__buf archive = WALDO__BUF_INIT(4 * TEXT_MAX);
    outcome out;
    char *before;

    if (strcmp(c->backend->name, "docker") == 0) {
        NEED(c, WALDO_BACKEND_CHANNEL); /* without a hand each file is a request */
    }
    for (int i = 0; i < 700; i++) {
        char name[32];

        snprintf(name, sizeof name, "d%d/f%d", i % 7, i);
        assert_int_equal(
            waldo__tar_put(&archive, &(waldo__tar_entry){ .name = name,
                                                          .mode = 0640,
                                                          .mtime_s = 1500000000 + i / 3,
                                                          .bytes = waldo__str(name) }),
            WALDO_OK);
    }
    waldo__tar_end(&archive);
    assert_int_equal(restore(c, c->sandbox, waldo__buf_str(&archive), NULL), WALDO_OK);
    before = listed(c, c->sandbox);
    assert_non_null(strstr(before, "d6/f699 100640 7 @1500000233 \n"));
    snapshot_of(c, c->sandbox, &out);
    assert_int_equal(restore(c, c->sandbox, waldo__buf_str(&out.bytes), NULL), WALDO_OK);
    expect_same(c, c->sandbox, before, waldo__buf_str(&out.bytes));
    outcome_free(&out);
    waldo__free(before);
    waldo__buf_free(&archive);
}

/* ---- archives that mean harm, or are none ---- */

static const struct {
    const char *about;
    waldo__tar_entry entries[3];
    char type; /* of the last entry, when the writer cannot make it */
    waldo_status status;
    const char *words;
} bad[] = {
    { "absolute", { { .name = "/etc/cron" } }, 0, WALDO_EPATH, "/etc/cron: the name leads out" },
    { "up", { { .name = "a/../../b" } }, 0, WALDO_EPATH, "leads out" },
    { "folder up", { { .name = "..", .is_folder = 1 } }, 0, WALDO_EPATH, "leads out" },
    { "through a link",
      { { .name = "a", .link = "/tmp" }, { .name = "a/b" } },
      0,
      WALDO_EPATH,
      "a/b: lies below" },
    { "through a link that comes later",
      { { .name = "a/b" }, { .name = "a", .link = "/tmp" } },
      0,
      WALDO_EPATH,
      "a/b: lies below" },
    { "below a file",
      { { .name = "a" }, { .name = "a-b" }, { .name = "a/b/c" } },
      0,
      WALDO_EPATH,
      "a/b/c: lies below" },
    { "a device", { { .name = "null" } }, '3', WALDO_EPATH, "null: is neither" },
    { "a pipe", { { .name = "p" } }, '6', WALDO_EPATH, "p: is neither" },
    { "a hard link out",
      { { .name = "h", .link = "/etc/passwd" } },
      '1',
      WALDO_EPATH,
      "leads out" },
    { "a hard link to nothing",
      { { .name = "a" }, { .name = "h", .link = "b" } },
      '1',
      WALDO_EPATH,
      "no file of the archive" },
    { "a hard link to a link",
      { { .name = "a", .link = "/etc/passwd" }, { .name = "h", .link = "a" } },
      '1',
      WALDO_EPATH,
      "no file of the archive" },
    { "the folder as a file", { { .name = "." } }, 0, WALDO_EPATH, "can be no file" },
    { "sparse", { { .name = "s" } }, 'S', WALDO_ENOTSUP, "sparse" },
};

static void set_type(char *block, char type)
{
    unsigned sum = 0;

    block[156] = type;
    memset(block + 148, ' ', 8);
    for (int i = 0; i < 512; i++) {
        sum += (unsigned char)block[i];
    }
    snprintf(block + 148, 8, "%06o", sum);
}

static void hostile_archives(void **state)
{
    contract *c = *state;
    char *before, *after;

    shell(c, c->sandbox, "echo mine > mine");
    before = listed(c, c->sandbox);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        waldo__buf archive = WALDO__BUF_INIT(TEXT_MAX);
        char message[1024];
        size_t last = 0;

        waldo__tar_put(&archive, &(waldo__tar_entry){ .name = "first", .bytes = WALDO__S("x") });
        for (size_t j = 0; j < 3 && bad[i].entries[j].name != NULL; j++) {
            last = archive.len;
            waldo__tar_put(&archive, &bad[i].entries[j]);
        }
        if (bad[i].type != 0) {
            set_type(archive.ptr + last, bad[i].type);
        }
        waldo__tar_end(&archive);
        if (restore(c, c->sandbox, waldo__buf_str(&archive), message) != bad[i].status ||
            strstr(message, bad[i].words) == NULL) {
            fail_msg("%s: %s", bad[i].about, message);
        }
        waldo__buf_free(&archive);
    }
    after = listed(c, c->sandbox);
    assert_string_equal(after, before); /* not even the good first entry was made */
    waldo__free(before);
    waldo__free(after);
}

static void no_archives(void **state)
{
    contract *c = *state;
    waldo__buf archive = WALDO__BUF_INIT(TEXT_MAX);
    char message[1024];
    char *text;

    shell(c, c->sandbox, "echo mine > mine");
    waldo__tar_put(&archive, &(waldo__tar_entry){ .name = "f", .bytes = WALDO__S("abc") });
    waldo__tar_end(&archive);
    assert_int_equal(restore(c, c->sandbox, waldo__str(""), message), WALDO_ETRUNCATED);
    for (size_t len = 1; len < archive.len; len += 101) {
        assert_int_equal(restore(c, c->sandbox, waldo__strn(archive.ptr, len), message),
                         WALDO_ETRUNCATED);
        assert_non_null(strstr(message, "before its end"));
    }
    archive.ptr[1] = 'x';
    assert_int_equal(restore(c, c->sandbox, waldo__buf_str(&archive), message), WALDO_EPROTO);
    assert_non_null(strstr(message, "no tar archive"));
    text = listed(c, c->sandbox);
    assert_non_null(strstr(text, "mine 1"));
    waldo__free(text);
    waldo__buf_free(&archive);
}

/* The last of two with one name counts; a hard link becomes a file of its own. */
static void odd_archives(void **state)
{
    contract *c = *state;
    waldo__buf archive = WALDO__BUF_INIT(TEXT_MAX);
    outcome out;
    size_t last;

    waldo__tar_put(&archive, &(waldo__tar_entry){ .name = "./twice", .bytes = WALDO__S("one") });
    waldo__tar_put(&archive, &(waldo__tar_entry){ .name = ".", .is_folder = 1, .mode = 0 });
    waldo__tar_put(&archive,
                   &(waldo__tar_entry){ .name = "twice", .mode = 0700, .bytes = WALDO__S("two") });
    last = archive.len;
    waldo__tar_put(&archive, &(waldo__tar_entry){ .name = "sub/hard", .link = "twice" });
    set_type(archive.ptr + last, '1');
    waldo__tar_end(&archive);
    assert_int_equal(restore(c, c->sandbox, waldo__buf_str(&archive), NULL), WALDO_OK);
    for (int i = 0; i < 2; i++) {
        read_file(c, i == 0 ? "twice" : "sub/hard", 0, 10, &out);
        assert_string_equal(waldo__buf_str(&out.bytes).ptr, "two");
        outcome_free(&out);
        outcome_init(&out);
        waldo__sandbox_stat(c->sandbox, i == 0 ? "twice" : "sub/hard", took_infos, &out);
        drive(c, &out);
        assert_int_equal(out.mode & 07777, 0700);
        outcome_free(&out);
    }
    waldo__buf_free(&archive);
}

/* ---- limits ---- */

static void too_large(void **state)
{
    contract *c = *state;
    char text[256];
    waldo_sandbox_spec *spec;
    waldo__buf archive = WALDO__BUF_INIT(TEXT_MAX);
    char message[1024];
    outcome out;

    snprintf(text, sizeof text, "%s:%s", c->backend->name, contract_target);
    spec = waldo_sandbox_spec_new(
        &WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS(text), .workspace_max_bytes = 1000));
    waldo_sandbox_unref(c->sandbox);
    c->sandbox = waldo_sandbox_new(c->rt, spec);
    waldo_sandbox_spec_unref(spec);

    memset(text, 'x', 250);
    for (int i = 0; i < 4; i++) {
        char name[] = "f0";

        name[1] += (char)i;
        write_file(c, name, waldo__strn(text, 250), 0, &out);
        outcome_free(&out);
    }
    snapshot_of(c, c->sandbox, &out); /* a thousand are just not too much */
    outcome_free(&out);
    write_file(c, "g", waldo__str("x"), 0, &out);
    outcome_free(&out);
    pack_of(c, c->sandbox, NULL, &out);
    assert_int_equal(out.status, WALDO_ETOOBIG);
    assert_non_null(strstr(out.message, "g: more than 1000 bytes in all"));
    assert_int_equal(out.bytes.len, 0);
    outcome_free(&out);

    waldo__tar_put(&archive, &(waldo__tar_entry){ .name = "f", .bytes = { text, 250 } });
    for (int i = 0; i < 4; i++) {
        waldo__tar_put(&archive, &(waldo__tar_entry){ .name = "f", .bytes = { text, 250 } });
    }
    waldo__tar_end(&archive);
    assert_int_equal(restore(c, c->sandbox, waldo__buf_str(&archive), message), WALDO_ETOOBIG);
    assert_non_null(strstr(message, "more than 1000 bytes"));
    waldo__buf_free(&archive);
}

/* ---- what is no file, and what cannot be read ---- */

static void special_files(void **state)
{
    contract *c = *state;
    outcome out;
    char *text;

    if (!has_links(c)) {
        skip();
    }
    shell(c, c->sandbox, "mkfifo pipe; echo x > file");
    snapshot_of(c, c->sandbox, &out);
    assert_int_equal(restore(c, c->sandbox, waldo__buf_str(&out.bytes), NULL), WALDO_OK);
    text = listed(c, c->sandbox);
    assert_null(strstr(text, "pipe"));
    assert_non_null(strstr(text, "file 1"));
    waldo__free(text);
    outcome_free(&out);

    shell(c, c->sandbox, "mkdir shut; echo x > shut/file; chmod 0 shut/file");
    pack_of(c, c->sandbox, NULL, &out);
    assert_int_equal(out.status, WALDO_EACCESS);
    assert_non_null(strstr(out.message, "shut/file"));
    outcome_free(&out);
}

static void folders(void **state)
{
    contract *c = *state;
    outcome out;
    outcome whole;

    shell(c, c->sandbox,
          "mkdir -p a/sub; echo one > a/sub/f; echo two > a/g; mkdir -p b; echo x > b/g");
    pack_of(c, c->sandbox, "a", &whole);
    assert_int_equal(whole.status, WALDO_OK);
    outcome_init(&out);
    waldo_sandbox_unpack(c->sandbox, "b/new", waldo__buf_str(&whole.bytes), took_done, &out);
    drive(c, &out);
    assert_string_equal(out.message, "");
    outcome_free(&out);
    outcome_init(&out);
    waldo_sandbox_unpack(c->sandbox, "/workspace/b", waldo__buf_str(&whole.bytes), took_done, &out);
    drive(c, &out);
    assert_string_equal(out.message, "");
    outcome_free(&out);
    outcome_init(&out);
    waldo_sandbox_unpack(c->sandbox, "/workspace/", waldo__buf_str(&whole.bytes), took_done, &out);
    drive(c, &out);
    assert_string_equal(out.message, "");
    outcome_free(&out);
    read_file(c, "sub/f", 0, 10, &out);
    assert_string_equal(waldo__buf_str(&out.bytes).ptr, "one\n");
    outcome_free(&out);
    outcome_init(&out);
    waldo__sandbox_list(c->sandbox, "b", 1, 100, took_infos, &out);
    drive(c, &out);
    assert_string_equal(out.names, "g\nnew\nnew/g\nnew/sub\nnew/sub/f\nsub\nsub/f\n");
    outcome_free(&out);
    read_file(c, "b/g", 0, 10, &out);
    assert_string_equal(waldo__buf_str(&out.bytes).ptr, "two\n");
    outcome_free(&out);
    pack_of(c, c->sandbox, "missing", &out);
    assert_int_equal(out.status, WALDO_ENOTFOUND);
    outcome_free(&out);
    for (int i = 0; i < 2; i++) {
        pack_of(c, c->sandbox, i == 0 ? "a/g" : "/workspace/a/g/", &out);
        assert_int_equal(out.status, WALDO_OK);
        assert_string_equal(out.bytes.ptr, "g"); /* the name field of the only entry */
        assert_int_equal(out.bytes.len, 4 * 512);
        outcome_free(&out);
    }
    pack_of(c, c->sandbox, "../up", &out);
    assert_int_equal(out.status, WALDO_EPATH);
    outcome_free(&out);
    outcome_free(&whole);
}

/* What belongs to the host is not cleared away. */
static void only_copies_are_restored(void **state)
{
    contract *c = *state;
    waldo_sandbox *other;
    char message[1024];
    outcome out;

    NEED(c, WALDO_BACKEND_BIND);
    chmod(c->folder, 0777);
    host_write(c, "theirs", "x", 1, 0644);
    other = other_sandbox(c, "", c->folder, WALDO_WORKSPACE_RW);
    snapshot_of(c, other, &out);
    assert_int_equal(restore(c, other, waldo__buf_str(&out.bytes), message), WALDO_ENOTSUP);
    assert_non_null(strstr(message, "only a copied workspace"));
    outcome_free(&out);
    close_sandbox(c, other);
}

/* ---- ends ---- */

static void ends_in_the_middle(void **state)
{
    contract *c = *state;

    for (int rounds = 0; rounds < 12; rounds++) {
        waldo_sandbox *other = other_sandbox(c, "", NULL, WALDO_WORKSPACE_COPY);
        waldo__buf archive = WALDO__BUF_INIT(4 * TEXT_MAX);
        outcome outs[2];

        for (int i = 0; i < 100; i++) {
            char name[32];

            snprintf(name, sizeof name, "f%d", i);
            waldo__tar_put(&archive, &(waldo__tar_entry){ .name = name, .bytes = WALDO__S("x") });
        }
        waldo__tar_end(&archive);
        outcome_init(&outs[0]);
        outcome_init(&outs[1]);
        waldo_sandbox_open(other, took_done, &outs[0]);
        drive(c, &outs[0]);
        outs[0].count = 0;
        waldo_sandbox_restore(other, waldo__buf_str(&archive), took_done, &outs[0]);
        waldo_sandbox_snapshot(other, took_archive, &outs[1]);
        for (int i = 0; i < rounds; i++) {
            waldo_runtime_step(c->rt, 10);
        }
        if (rounds % 2 == 0) {
            close_sandbox(c, other);
        } else {
            waldo__sandbox_abandon(other);
            waldo_sandbox_unref(other);
        }
        waldo_runtime_step(c->rt, 0);
        assert_int_equal(outs[0].count, 1);
        assert_int_equal(outs[1].count, 1);
        outcome_free(&outs[0]);
        outcome_free(&outs[1]);
        waldo__buf_free(&archive);
    }
}

const struct CMUnitTest snapshot_cases[] = {
    CASE(there_and_back),
    CASE(empty_workspaces),
    CASE(many_files),
    CASE(hostile_archives),
    CASE(no_archives),
    CASE(odd_archives),
    CASE(too_large),
    CASE(special_files),
    CASE(folders),
    CASE(ends_in_the_middle),
    CASE(only_copies_are_restored),
};
const size_t snapshot_case_count = sizeof snapshot_cases / sizeof *snapshot_cases;

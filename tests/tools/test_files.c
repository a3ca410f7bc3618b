/* read_file, write_file, edit_file, ls and glob, the same over every kind of sandbox. */
#include "fixture.h"

#include "base/utf8.h"

static void test_golden_tools(void **state)
{
    (void)state;
    for (size_t i = 0; waldo__builtins[i].options != NULL; i++) {
        const waldo_tool_options *options = waldo__builtins[i].options;
        waldo_tool *tool = waldo_tool_new(options);
        waldo__buf text = WALDO__BUF_INIT(64 * 1024);
        char name[100];

        assert_null(waldo_tool_error(tool));
        waldo__buf_printf(&text, "%s\n\n%s\n\n%.*s\n", options->name, options->about,
                          (int)waldo__tool_schema(tool).len, waldo__tool_schema(tool).ptr);
        if (waldo__builtins[i].prompt != NULL) {
            waldo__buf_printf(&text, "\n%s\n", waldo__builtins[i].prompt);
        }
        snprintf(name, sizeof name, "%s.tool", options->name);
        golden_text(name, waldo__buf_str(&text));
        if (options->grammar != NULL) {
            snprintf(name, sizeof name, "%s.lark", options->name);
            golden_text(name, waldo__str(options->grammar));
        }
        waldo__buf_free(&text);
        waldo_tool_unref(tool);
    }
}

static void test_golden_read(void **state)
{
    static const char *const calls[] = {
        "{\"path\":\"three.txt\"}",
        "{\"path\":\"/workspace/three.txt\",\"offset\":2,\"limit\":1}",
        "{\"path\":\"three.txt\",\"offset\":3}",
        "{\"path\":\"three.txt\",\"offset\":4}",
        "{\"path\":\"three.txt\",\"offset\":0,\"limit\":3}",
        "{\"path\":\"three.txt\",\"limit\":0}",
        "{\"path\":\"three.txt\",\"offset\":-1}",
        "{\"path\":\"three.txt\",\"byte_offset\":4}",
        "{\"path\":\"three.txt\",\"byte_offset\":14}",
        "{\"path\":\"three.txt\",\"byte_offset\":-1}",
        "{\"path\":\"no-end.txt\"}",
        "{\"path\":\"no-end.txt\",\"offset\":3}",
        "{\"path\":\"empty\"}",
        "{\"path\":\"empty\",\"byte_offset\":0}",
        "{\"path\":\"crlf.txt\"}",
        "{\"path\":\"latin1.txt\"}",
        "{\"path\":\"binary\"}",
        "{\"path\":\"binary\",\"byte_offset\":0}",
        "{\"path\":\"a b/-x\\ny\"}",
        "{\"path\":\"missing\"}",
        "{\"path\":\"\"}",
        "{\"path\":\"../etc/passwd\"}",
    };
    fixture *f = *state;

    put(f, "three.txt", WALDO__S("one\ntwo\nthree\n"));
    put(f, "no-end.txt", WALDO__S("one\ntwo"));
    put(f, "empty", WALDO__S(""));
    put(f, "crlf.txt", WALDO__S("one\r\ntwo\r\n"));
    put(f, "latin1.txt", WALDO__S("caf\xe9\n"));
    put(f, "binary",
        WALDO__S("\x7f"
                 "ELF\0\0\1"));
    put(f, "a b/-x\ny", WALDO__S("odd name\n"));
    for (size_t i = 0; i < WALDO__COUNT(calls); i++) {
        golden_call(f, "read_file", calls[i]);
    }
    golden_check(f, "read_file.results");
}

static void test_golden_change(void **state)
{
    static const char *const calls[][2] = {
        { "write_file", "{\"path\":\"new/deep/a.txt\",\"content\":\"h\\u00e9llo\\n\"}" },
        { "read_file", "{\"path\":\"new/deep/a.txt\"}" },
        { "write_file", "{\"path\":\"new/deep/a.txt\",\"content\":\"\"}" },
        { "read_file", "{\"path\":\"new/deep/a.txt\"}" },
        { "write_file", "{\"path\":\"../out\",\"content\":\"x\"}" },
        { "write_file", "{\"path\":\"\",\"content\":\"x\"}" },
        { "edit_file", "{\"path\":\"e.txt\",\"old_text\":\"two\",\"new_text\":\"2\"}" },
        { "edit_file", "{\"path\":\"e.txt\",\"old_text\":\"one\",\"new_text\":\"1\"}" },
        { "edit_file",
          "{\"path\":\"e.txt\",\"old_text\":\"one\",\"new_text\":\"1\",\"replace_all\":true}" },
        { "edit_file", "{\"path\":\"e.txt\",\"old_text\":\"one\",\"new_text\":\"1\"}" },
        { "edit_file", "{\"path\":\"e.txt\",\"old_text\":\"\",\"new_text\":\"1\"}" },
        { "edit_file", "{\"path\":\"e.txt\",\"old_text\":\"1\",\"new_text\":\"1\"}" },
        { "edit_file", "{\"path\":\"missing\",\"old_text\":\"1\",\"new_text\":\"2\"}" },
        { "read_file", "{\"path\":\"e.txt\"}" },
        { "edit_file", "{\"path\":\"crlf.txt\",\"old_text\":\"a\\nb\",\"new_text\":\"a\\nc\"}" },
        { "read_file", "{\"path\":\"crlf.txt\"}" },
    };
    fixture *f = *state;

    put(f, "e.txt", WALDO__S("one two one\n"));
    put(f, "crlf.txt", WALDO__S("a\r\nb\r\n"));
    for (size_t i = 0; i < WALDO__COUNT(calls); i++) {
        golden_call(f, calls[i][0], calls[i][1]);
    }
    golden_check(f, "write_edit.results");
}

static void test_golden_list(void **state)
{
    static const char *const calls[][2] = {
        { "ls", "{}" },
        { "ls", "{\"path\":\"src\"}" },
        { "ls", "{\"path\":\"hollow\"}" },
        { "ls", "{\"path\":\"missing\"}" },
        { "ls", "{\"path\":\"..\"}" },
        { "glob", "{\"pattern\":\"*.c\"}" },
        { "glob", "{\"pattern\":\"src/**\"}" },
        { "glob", "{\"pattern\":\"**/*.{h,py}\"}" },
        { "glob", "{\"pattern\":\"*\",\"path\":\"src/deep\"}" },
        { "glob", "{\"pattern\":\"*.rs\"}" },
        { "glob", "{\"pattern\":\"*config\"}" },
        { "glob", "{\"pattern\":\".git/*\"}" },
        { "glob", "{\"pattern\":\"[a\"}" },
        { "glob", "{\"pattern\":\"/workspace/*.c\"}" },
        { "glob", "{\"pattern\":\"*\",\"path\":\"missing\"}" },
        { "glob", "{\"pattern\":\"*\",\"path\":\"hollow\"}" },
    };
    static const char *const files[] = {
        "src/a.c",     "src/a.h", "src/deep/b.c", "src/deep/b.py", "README", ".env",
        ".git/config", "-dash.c", "two words.c",  "line\nbreak.c", "z.c",    "hollow/x",
    };
    fixture *f = *state;

    for (size_t i = 0; i < WALDO__COUNT(files); i++) {
        put(f, files[i], waldo__str(files[i]));
    }
    shell(f, "rm hollow/x");
    for (size_t i = 0; i < WALDO__COUNT(calls); i++) {
        golden_call(f, calls[i][0], calls[i][1]);
    }
    golden_check(f, "ls_glob.results");
}

/* Failures that the machine itself words. */
static void test_golden_failures(void **state)
{
    static const char *const calls[][2] = {
        { "read_file", "{\"path\":\"folder\"}" },
        { "read_file", "{\"path\":\"link-out\"}" },
        { "read_file", "{\"path\":\"folder-out/passwd\"}" },
        { "read_file", "{\"path\":\"link-in\"}" },
        { "read_file", "{\"path\":\"loop\"}" },
        { "read_file", "{\"path\":\"pipe\"}" },
        { "read_file", "{\"path\":\"file/below\"}" },
        { "write_file", "{\"path\":\"folder\",\"content\":\"x\"}" },
        { "write_file", "{\"path\":\"file/below\",\"content\":\"x\"}" },
        { "write_file", "{\"path\":\"folder-out/x\",\"content\":\"x\"}" },
        { "write_file", "{\"path\":\"/usr/x\",\"content\":\"x\"}" },
        { "edit_file", "{\"path\":\"folder\",\"old_text\":\"1\",\"new_text\":\"2\"}" },
        { "edit_file", "{\"path\":\"link-out\",\"old_text\":\"1\",\"new_text\":\"2\"}" },
        { "edit_file", "{\"path\":\"huge\",\"old_text\":\"1\",\"new_text\":\"2\"}" },
        { "edit_file", "{\"path\":\"link-in\",\"old_text\":\"text\",\"new_text\":\"2\"}" },
        { "write_file", "{\"path\":\"link-in\",\"content\":\"x\"}" },
        { "write_file", "{\"path\":\"link-out\",\"content\":\"x\"}" },
        { "write_file", "{\"path\":\"dangling\",\"content\":\"x\"}" },
        { "read_file", "{\"path\":\"link-in\"}" },
        { "write_file", "{\"path\":\"folder-in/new\",\"content\":\"x\"}" },
        { "read_file", "{\"path\":\"folder/new\"}" },
        { "ls", "{\"path\":\"file\"}" },
        { "ls", "{\"path\":\"folder-out\"}" },
        { "ls", "{\"path\":\"folder\"}" },
        { "glob", "{\"pattern\":\"*\",\"path\":\"file\"}" },
        { "glob", "{\"pattern\":\"*\"}" },
    };
    fixture *f = *state;

    if (!is_local()) {
        skip();
    }
    shell(f, "mkdir -p folder/sub; echo text >file; ln -s /etc/passwd link-out; ln -s file link-in;"
             "ln -s /etc folder-out; ln -s loop loop; mkfifo pipe; ln -s folder folder-in; ln -s "
             "gone dangling; ln -s 'a\nb' folder/link;"
             "truncate -s 17M huge; touch folder/run; chmod 755 folder/run");
    for (size_t i = 0; i < WALDO__COUNT(calls); i++) {
        golden_call(f, calls[i][0], calls[i][1]);
    }
    golden_check(f, "failures.results");
}

/* Two GiB of nothing: told at once, and nothing of it is kept. */
static void test_sparse_file(void **state)
{
    fixture *f = *state;

    if (!is_local()) {
        skip();
    }
    shell(f, "truncate -s 2G sparse");
    assert_contains(failure_of(f, "read_file", "{\"path\":\"sparse\",\"limit\":100}"),
                    "sparse is a binary file of 2147483648 bytes: ");
    assert_contains(
        failure_of(f, "edit_file", "{\"path\":\"sparse\",\"old_text\":\"a\",\"new_text\":\"b\"}"),
        "sparse is larger than 16 MiB: edit it with a command");
    assert_contains(reply_of(f, "read_file", "{\"path\":\"sparse\",\"byte_offset\":2147483640}"),
                    "\xef\xbf\xbd");
    shell(f, "head -c 70000000 /dev/zero | tr '\\0' x >wide");
    assert_contains(failure_of(f, "read_file", "{\"path\":\"wide\",\"offset\":2}"),
                    "line 2 is not in the first 64 MiB, where line 1 is the last: use byte_offset");
}

static void test_view_image(void **state)
{
    static const struct {
        const char *path;
        size_t images;
        const char *says;
    } rows[] = {
        { "shot.png", 1, "shot.png: image/png, 12 bytes" },
        { "shot.webp", 1, "shot.webp: image/webp, 16 bytes" },
        { "page.html", 0, "page.html is not a PNG, JPEG, GIF or WebP image: convert it" },
        { "empty", 0, "empty is not a PNG" },
        { "large.png", 0, "large.png is larger than 10 MiB: make it smaller" },
        { "missing.png", 0, "missing.png does not exist: look for it with ls or glob" },
        { "../x.png", 0, "the path leaves the workspace" },
    };
    fixture *f = *state;
    size_t large = 10 * 1024 * 1024 + 1;
    char *bytes = calloc(1, large);

    memcpy(bytes, "\x89PNG\r\n\x1a\n", 8);
    put(f, "shot.png", waldo__strn(bytes, 12));
    put(f, "shot.webp", WALDO__S("RIFF\x08\0\0\0WEBPVP8 "));
    put(f, "page.html", WALDO__S("<!doctype html>"));
    put(f, "empty", WALDO__S(""));
    put(f, "large.png", waldo__strn(bytes, large));
    free(bytes);
    for (size_t i = 0; i < WALDO__COUNT(rows); i++) {
        outcome out = { .count = 0 };
        char args[100];
        waldo_tool_call *call;

        snprintf(args, sizeof args, "{\"path\":\"%s\"}", rows[i].path);
        call = start(f, "view_image", args, &out);
        finish(f, &out);
        assert_int_equal(out.end, rows[i].images > 0 ? WALDO__CALL_REPLY : WALDO__CALL_FAIL);
        assert_int_equal(out.images, rows[i].images);
        assert_contains(out.text, rows[i].says);
        waldo__tool_call_release(call);
        outcome_free(&out);
    }
}

/* What the JSON of the arguments already refuses does not reach a tool. */
static void test_refused_arguments(void **state)
{
    static const char *const rows[][2] = {
        { "read_file", "{}" },
        { "read_file", "{\"path\":1}" },
        { "read_file", "{\"path\":\"a\",\"offset\":\"1\"}" },
        { "read_file", "{\"path\":\"a\",\"other\":1}" },
        { "read_file", "{\"path\":\"a\\u0000b\"}" },
        { "write_file", "{\"path\":\"a\"}" },
        { "edit_file", "{\"path\":\"a\",\"old_text\":\"x\"}" },
        { "glob", "[]" },
        { "ls", "{\"path\":" },
        { "exec_command", "{\"cmd\":[\"ls\"]}" },
        { "grep", "{\"path\":\".\"}" },
    };
    fixture *f = *state;
    const waldo__call_sink sink = { .loop = f->rt->loop, .max_output = 100 };

    for (size_t i = 0; i < WALDO__COUNT(rows); i++) {
        for (size_t j = 0; waldo__builtins[j].options != NULL; j++) {
            waldo_tool_call *call = NULL;
            waldo_error *error = NULL;
            waldo_tool *tool;
            waldo_status status;

            if (strcmp(waldo__builtins[j].options->name, rows[i][0]) != 0) {
                continue;
            }
            tool = waldo_tool_new(waldo__builtins[j].options);
            status =
                waldo__tool_call_new(tool, "i", "k", waldo__str(rows[i][1]), &sink, &call, &error);
            assert_true(status == WALDO_EINVAL || status == WALDO_EJSON);
            assert_null(call);
            assert_true(strlen(waldo_error_message(error)) > 10);
            waldo_error_free(error);
            waldo_tool_unref(tool);
        }
    }
}

/* ---- long files ---- */

/* Read a file as a model would, following the notes; the text must be the file's. */
static void read_by_lines(fixture *f, waldo_str want)
{
    waldo__buf all = WALDO__BUF_INIT(4 * 1024 * 1024);
    char args[200] = "{\"path\":\"long.txt\"}";
    int rounds = 0;

    for (;;) {
        const char *text = reply_of(f, "read_file", args), *note;

        assert_true(strlen(text) < f->max_output + 200);
        note = strstr(text, "[there is more; go on with offset=");
        waldo__buf_add(&all, text, note != NULL ? (size_t)(note - text) : strlen(text));
        if (note == NULL || rounds++ > 1000) {
            break;
        }
        snprintf(args, sizeof args, "{\"path\":\"long.txt\",\"offset\":%s",
                 note + strlen("[there is more; go on with offset="));
        memcpy(strchr(args, ']'), "}", 2);
    }
    assert_int_equal(all.len, want.len);
    assert_memory_equal(all.ptr, want.ptr, want.len);
    waldo__buf_free(&all);
}

static void read_by_bytes(fixture *f, const char *path, waldo_str want)
{
    waldo__buf all = WALDO__BUF_INIT(4 * 1024 * 1024);
    unsigned long long offset = 0;
    const char *text, *note;

    do {
        char args[200];

        snprintf(args, sizeof args, "{\"path\":\"%s\",\"byte_offset\":%llu}", path, offset);
        text = reply_of(f, "read_file", args);
        note = strstr(text, "[bytes ");
        waldo__buf_add(&all, text, note != NULL ? (size_t)(note - text) : strlen(text));
        if (note != NULL) {
            unsigned long long next = strtoull(strstr(note, "byte_offset=") + 12, NULL, 10);

            assert_true(next > offset);
            offset = next;
            /* The note began a line, unless the text ended one. */
            if (all.len > 0 && all.ptr[all.len - 1] == '\n' && all.len > offset) {
                waldo__buf_truncate(&all, all.len - 1);
            }
        }
    } while (note != NULL);
    assert_int_equal(all.len, want.len);
    assert_memory_equal(all.ptr, want.ptr, want.len);
    waldo__buf_free(&all);
}

static void test_long_files(void **state)
{
    fixture *f = *state;
    waldo__buf file = WALDO__BUF_INIT(4 * 1024 * 1024);

    for (int i = 1; file.len < 700000; i++) {
        waldo__buf_printf(&file, "line %d of a long file with \xe6\xbc\xa2 and \xc3\xa9\n", i);
    }
    waldo__buf_puts(&file, "the end");
    put(f, "long.txt", waldo__buf_str(&file));
    read_by_lines(f, waldo__buf_str(&file));
    f->max_output = 300001; /* more than a chunk */
    read_by_lines(f, waldo__buf_str(&file));
    f->max_output = 50001;
    read_by_bytes(f, "long.txt", waldo__buf_str(&file));
    assert_contains(reply_of(f, "read_file", "{\"path\":\"long.txt\",\"offset\":100000}"),
                    " lines]");
    waldo__buf_free(&file);
}

/* A line longer than an answer: its beginning, and the way to the rest. */
static void test_long_line(void **state)
{
    fixture *f = *state;
    size_t len = 600000;
    char *file = malloc(len + 1), want[200];
    const char *text;

    memset(file, 'x', len);
    memcpy(file, "short\n", 6);
    memcpy(file + len - 5, "\nend\n", 5);
    put(f, "long", waldo__strn(file, len));
    text = reply_of(f, "read_file", "{\"path\":\"long\"}");
    assert_string_equal(text, "short\n[there is more; go on with offset=2]");
    text = reply_of(f, "read_file", "{\"path\":\"long\",\"offset\":2}");
    snprintf(want, sizeof want, "x\n[line 2 goes on; read the rest with byte_offset=%d]", 40006);
    assert_contains(text, want);
    assert_int_equal(strlen(text), 40000 + strlen(want) - 1);
    text = reply_of(f, "read_file", "{\"path\":\"long\",\"offset\":3}");
    assert_string_equal(text, "end\n");
    read_by_bytes(f, "long", waldo__strn(file, len));
    free(file);
}

/* Bytes that are no text cost three each, and still the answer keeps to its size. */
static void test_binary_budget(void **state)
{
    fixture *f = *state;
    char *file = calloc(1, 200000);
    const char *text;

    put(f, "zeros", waldo__strn(file, 200000));
    text = reply_of(f, "read_file", "{\"path\":\"zeros\",\"byte_offset\":0}");
    assert_contains(text, "\n[bytes 0 to 13333 of 200000; go on with byte_offset=13333]");
    assert_true(strlen(text) < 40100);
    memset(file, 0xff, 200000);
    put(f, "ones", waldo__strn(file, 200000));
    text = reply_of(f, "read_file", "{\"path\":\"ones\"}");
    assert_contains(text, "[line 1 goes on; read the rest with byte_offset=13333]");
    f->max_output = 1;
    text = reply_of(f, "read_file", "{\"path\":\"ones\",\"byte_offset\":7}");
    assert_contains(text, "go on with byte_offset=8]");
    free(file);
}

/* Sizes around the limits that others fell over (one argument, one frame, a window). */
static void test_sizes(void **state)
{
    static const size_t sizes[] = { 95000, 98304, 98305, 131072, 5000000 };
    fixture *f = *state;

    for (size_t i = 0; i < WALDO__COUNT(sizes); i++) {
        size_t len = 0, head = strlen("{\"path\":\"big\",\"content\":\"");
        char *args = malloc(sizes[i] + 100), *back;

        memcpy(args, "{\"path\":\"big\",\"content\":\"", head);
        for (size_t j = 0; j < sizes[i]; j++) {
            args[head + j] = (char)('a' + (j * 31 + j / 1000) % 26);
        }
        memcpy(args + head + sizes[i], "\"}", 3);
        assert_contains(reply_of(f, "write_file", args), "bytes to big");
        back = get(f, "big", &len);
        assert_int_equal(len, sizes[i]);
        assert_memory_equal(back, args + head, len);
        waldo__free(back);
        free(args);
    }
}

/* ---- changes at the same time ---- */

static void test_parallel_edits(void **state)
{
    fixture *f = *state;
    outcome outs[8];
    waldo_tool_call *calls[8];
    char *text;

    put(f, "shared", WALDO__S("k0 k1 k2 k3 k4 k5 k6 k7"));
    for (int i = 0; i < 8; i++) {
        char args[100];

        snprintf(args, sizeof args,
                 "{\"path\":\"shared\",\"old_text\":\"k%d\",\"new_text\":\"done%d\"}", i, i);
        calls[i] = start(f, "edit_file", args, &outs[i]);
    }
    for (int i = 0; i < 8; i++) {
        finish(f, &outs[i]);
        assert_int_equal(outs[i].end, WALDO__CALL_REPLY);
        waldo__tool_call_release(calls[i]);
        outcome_free(&outs[i]);
    }
    text = get(f, "shared", NULL);
    assert_string_equal(text, "done0 done1 done2 done3 done4 done5 done6 done7");
    waldo__free(text);
}

/* One that waits for its turn can be cancelled; the others get theirs, it has no effect. */
static void test_cancel_waiting(void **state)
{
    fixture *f = *state;
    outcome outs[3];
    waldo_tool_call *calls[3];
    char *text;

    put(f, "shared", WALDO__S("a b c"));
    calls[0] = start(f, "edit_file", "{\"path\":\"shared\",\"old_text\":\"a\",\"new_text\":\"1\"}",
                     &outs[0]);
    calls[1] = start(f, "edit_file", "{\"path\":\"shared\",\"old_text\":\"b\",\"new_text\":\"2\"}",
                     &outs[1]);
    calls[2] = start(f, "write_file", "{\"path\":\"other\",\"content\":\"x\"}", &outs[2]);
    waldo__tool_call_cancel(calls[1]);
    finish(f, &outs[0]);
    finish(f, &outs[2]);
    assert_int_equal(outs[1].count, 0);
    text = get(f, "shared", NULL);
    assert_string_equal(text, "1 b c");
    waldo__free(text);
    for (int i = 0; i < 3; i++) {
        waldo__tool_call_release(calls[i]);
        outcome_free(&outs[i]);
    }
}

/* A cancelled call has no end, and leaves nothing behind when all is taken down under it. */
static void test_cancel_and_free(void **state)
{
    static const char *const rows[][2] = {
        { "write_file", "{\"path\":\"a\",\"content\":\"x\"}" },
        { "edit_file", "{\"path\":\"shared\",\"old_text\":\"a\",\"new_text\":\"1\"}" },
        { "read_file", "{\"path\":\"shared\"}" },
        { "ls", "{}" },
        { "glob", "{\"pattern\":\"*\"}" },
        { "grep", "{\"pattern\":\"x\"}" },
        { "exec_command", "{\"cmd\":\"sleep 60\"}" },
    };
    fixture *f = *state;
    outcome outs[WALDO__COUNT(rows)];
    waldo_tool_call *calls[WALDO__COUNT(rows)];

    put(f, "shared", WALDO__S("a"));
    for (size_t i = 0; i < WALDO__COUNT(rows); i++) {
        calls[i] = start(f, rows[i][0], rows[i][1], &outs[i]);
    }
    for (size_t i = 0; i < WALDO__COUNT(rows); i++) {
        waldo__tool_call_cancel(calls[i]);
        waldo__tool_call_release(calls[i]);
    }
    waldo_sandbox_unref(f->sandbox);
    waldo_runtime_free(f->rt);
    f->rt = NULL;
    f->sandbox = NULL;
    for (size_t i = 0; i < WALDO__COUNT(rows); i++) {
        assert_int_equal(outs[i].count, 0);
    }
}

static void test_closed_sandbox(void **state)
{
    static const char *const rows[][2] = {
        { "write_file", "{\"path\":\"a\",\"content\":\"x\"}" },
        { "edit_file", "{\"path\":\"shared\",\"old_text\":\"a\",\"new_text\":\"1\"}" },
        { "read_file", "{\"path\":\"shared\"}" },
        { "ls", "{}" },
        { "glob", "{\"pattern\":\"*\"}" },
        { "grep", "{\"pattern\":\"x\"}" },
        { "exec_command", "{\"cmd\":\"true\"}" },
    };
    fixture *f = *state;

    waldo_sandbox_close(f->sandbox, NULL, NULL);
    for (size_t i = 0; i < WALDO__COUNT(rows); i++) {
        assert_string_equal(failure_of(f, rows[i][0], rows[i][1]), "the sandbox is closed");
    }
}

/* A full disk is said, with what helps; what was there stays. */
static void test_full_disk(void **state)
{
    const char *const backends[] = { "fake:,space=1000", NULL };
    fixture *f = *state;
    waldo_sandbox_spec *spec = waldo_sandbox_spec_new(&WALDO_SANDBOX_SPEC(.backends = backends));
    char args[2000] = "{\"path\":\"full\",\"content\":\"", *text;

    if (is_local()) {
        waldo_sandbox_spec_unref(spec);
        skip();
    }
    waldo_sandbox_unref(f->sandbox);
    f->sandbox = waldo_sandbox_new(f->rt, spec);
    waldo_sandbox_spec_unref(spec);
    put(f, "full", WALDO__S("before"));
    memset(args + strlen(args), 'x', 1200);
    memcpy(args + strlen(args), "\"}", 3);
    assert_contains(failure_of(f, "write_file", args),
                    "(the disk of the sandbox is full: remove what is not needed)");
    text = get(f, "full", NULL);
    assert_string_equal(text, "before");
    waldo__free(text);
}

static void test_many_files(void **state)
{
    fixture *f = *state;
    const char *text;

    for (int i = 0; i < 300; i++) {
        char name[100];

        snprintf(name, sizeof name, "many/file-with-a-name-of-some-length-%03d", i);
        put(f, name, WALDO__S(""));
    }
    f->max_output = 1000;
    text = reply_of(f, "glob", "{\"pattern\":\"many/*\"}");
    assert_true(strlen(text) < 1100);
    assert_contains(text, "many/file-with-a-name-of-some-length-000\n");
    assert_contains(text, "many/file-with-a-name-of-some-length-023\n[... 276 lines (11316 bytes) "
                          "omitted ...]\n");
    text = reply_of(f, "ls", "{\"path\":\"many\"}");
    assert_contains(text, "file-with-a-name-of-some-length-000  0\n");
    assert_contains(text, " lines (");
}

#define ONE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_tools),
        ONE(test_golden_read),
        ONE(test_golden_change),
        ONE(test_golden_list),
        ONE(test_golden_failures),
        ONE(test_sparse_file),
        ONE(test_view_image),
        ONE(test_refused_arguments),
        ONE(test_long_files),
        ONE(test_long_line),
        ONE(test_binary_budget),
        ONE(test_sizes),
        ONE(test_parallel_edits),
        ONE(test_cancel_waiting),
        ONE(test_cancel_and_free),
        ONE(test_closed_sandbox),
        ONE(test_full_disk),
        ONE(test_many_files),
    };

    return fixture_arguments(argc, argv) != 0 ? 2 : !!cmocka_run_group_tests(tests, NULL, NULL);
}

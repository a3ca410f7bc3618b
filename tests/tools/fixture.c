#include "fixture.h"

#include "base/utf8.h"

static const char *sandbox_string, *golden_folder;
static int updates;

int fixture_arguments(int argc, char **argv)
{
    if (argc < 3 || argc > 4 || (argc == 4 && strcmp(argv[3], "--update") != 0)) {
        fprintf(stderr, "usage: %s SANDBOX-STRING GOLDEN-FOLDER [--update]\n", argv[0]);
        return 2;
    }
    sandbox_string = argv[1];
    golden_folder = argv[2];
    updates = argc == 4;
    return 0;
}

int is_local(void)
{
    return strncmp(sandbox_string, "local:", 6) == 0;
}

int fixture_setup(void **state)
{
    const char *const backends[] = { sandbox_string, NULL };
    fixture *f = calloc(1, sizeof *f);
    waldo_sandbox_spec *spec = waldo_sandbox_spec_new(&WALDO_SANDBOX_SPEC(.backends = backends));

    f->rt = waldo_runtime_new(&WALDO_RUNTIME(.keys = WALDO_KEYS_FROM_ENV));
    f->sandbox = waldo_sandbox_new(f->rt, spec);
    f->max_output = 40000;
    waldo__buf_init(&f->transcript, 64 * 1024 * 1024);
    waldo_sandbox_spec_unref(spec);
    *state = f;
    return f->sandbox != NULL ? 0 : -1;
}

int fixture_teardown(void **state)
{
    fixture *f = *state;

    waldo_sandbox_unref(f->sandbox);
    waldo_runtime_finish(f->rt);
    waldo__buf_free(&f->transcript);
    free(f);
    return 0;
}

/* ---- calls ---- */

static void took_end(void *userdata, waldo_tool_call *call, waldo__call_end end,
                     waldo_status status, waldo_str text)
{
    outcome *out = userdata;
    waldo__media_list media = { .count = 0 };

    waldo__tool_call_take_media(call, &media);
    out->images = media.count;
    waldo__media_free(&media);
    out->count++;
    out->end = end;
    out->status = status;
    free(out->text);
    out->text = strndup(text.ptr, text.len);
}

static void took_output(void *userdata, waldo_tool_call *call, int stream, waldo_str bytes)
{
    outcome *out = userdata;

    (void)call;
    out->live[stream - 1] += bytes.len;
}

waldo_tool *tool_named(const char *name)
{
    for (size_t i = 0; waldo__builtins[i].options != NULL; i++) {
        if (strcmp(waldo__builtins[i].options->name, name) == 0) {
            return waldo_tool_new(waldo__builtins[i].options);
        }
    }
    fail_msg("no tool %s", name);
    return NULL;
}

waldo_tool_call *start_tool(fixture *f, waldo_tool *tool, const char *args, outcome *out)
{
    const waldo__call_sink sink = { .userdata = out,
                                    .loop = f->rt->loop,
                                    .http = f->rt->http,
                                    .sandbox = f->sandbox,
                                    .max_output = f->max_output,
                                    .output = took_output,
                                    .ended = took_end };
    waldo_tool_call *call = NULL;
    waldo_error *error = NULL;

    *out = (outcome){ .count = 0 };
    if (waldo__tool_call_new(tool, "id", "key", waldo__str(args), &sink, &call, &error) !=
        WALDO_OK) {
        fail_msg("%s %s: %s", waldo__tool_options(tool)->name, args, waldo_error_message(error));
    }
    waldo_tool_unref(tool);
    waldo__tool_call_start(call);
    return call;
}

waldo_tool_call *start(fixture *f, const char *name, const char *args, outcome *out)
{
    return start_tool(f, tool_named(name), args, out);
}

void finish(fixture *f, outcome *out)
{
    while (out->count == 0) {
        waldo_status status = waldo_runtime_step(f->rt, 60000);

        if (status != WALDO_OK) {
            fail_msg("nothing happened for a minute (%s)", waldo_status_name(status));
        }
    }
    assert_int_equal(out->count, 1);
    assert_true(waldo__utf8_valid(waldo__str(out->text)));
}

void outcome_free(outcome *out)
{
    free(out->text);
    out->text = NULL;
}

/* The text lives until the next call. */
static const char *call_and_wait(fixture *f, const char *tool, const char *args,
                                 waldo__call_end *ret_end)
{
    static char *last;
    outcome out;
    waldo_tool_call *call = start(f, tool, args, &out);

    finish(f, &out);
    waldo__tool_call_release(call);
    free(last);
    last = strdup(out.text);
    outcome_free(&out);
    *ret_end = out.end;
    return last;
}

const char *reply_of(fixture *f, const char *tool, const char *args)
{
    waldo__call_end end;
    const char *text = call_and_wait(f, tool, args, &end);

    if (end != WALDO__CALL_REPLY) {
        fail_msg("%s %s failed: %s", tool, args, text);
    }
    return text;
}

const char *failure_of(fixture *f, const char *tool, const char *args)
{
    waldo__call_end end;
    const char *text = call_and_wait(f, tool, args, &end);

    if (end != WALDO__CALL_FAIL) {
        fail_msg("%s %s did not fail: %s", tool, args, text);
    }
    return text;
}

/* ---- golden files ---- */

/* What differs from run to run. */
static void add_stable(waldo__buf *out, const char *text)
{
    const char *time = strstr(text, "Wall time: ");

    if (time == NULL) {
        waldo__buf_puts(out, text);
        return;
    }
    waldo__buf_add(out, text, (size_t)(time - text));
    waldo__buf_puts(out, "Wall time: T");
    waldo__buf_puts(out, strstr(time, " s\n"));
}

void golden_call(fixture *f, const char *tool, const char *args)
{
    waldo__call_end end;
    const char *text = call_and_wait(f, tool, args, &end);

    waldo__buf_printf(&f->transcript, "### %s %s\n%s", tool, args,
                      end == WALDO__CALL_FAIL ? "ERROR: " : "");
    add_stable(&f->transcript, text);
    if (f->transcript.ptr[f->transcript.len - 1] != '\n') {
        waldo__buf_puts(&f->transcript, "$\n"); /* no newline at the end */
    }
}

void golden_text(const char *name, waldo_str text)
{
    char path[1024], *want;
    FILE *file;
    long size;

    snprintf(path, sizeof path, "%s/%s", golden_folder, name);
    file = fopen(path, updates ? "wb" : "rb");
    if (file == NULL) {
        fail_msg("cannot open the golden file %s", path);
    }
    if (updates) {
        fwrite(text.ptr, 1, text.len, file);
        fclose(file);
        return;
    }
    fseek(file, 0, SEEK_END);
    size = ftell(file);
    rewind(file);
    want = malloc((size_t)size + 1);
    want[fread(want, 1, (size_t)size, file)] = '\0';
    fclose(file);
    if ((size_t)size != text.len || memcmp(want, text.ptr, text.len) != 0) {
        print_error("%s differs (--update writes it). Got:\n%s\nwanted:\n%s\n", path, text.ptr,
                    want);
        free(want);
        fail();
    }
    free(want);
}

void golden_check(fixture *f, const char *name)
{
    golden_text(name, waldo__buf_str(&f->transcript));
}

/* ---- files and commands ---- */

typedef struct file_end {
    int count;
    waldo_status status;
    waldo__buf bytes;
} file_end;

static void wait_file(fixture *f, file_end *end, const char *path)
{
    while (end->count == 0) {
        assert_int_equal(waldo_runtime_step(f->rt, 60000), WALDO_OK);
    }
    if (end->status != WALDO_OK) {
        fail_msg("%s: %s", path, waldo_status_text(end->status));
    }
}

static void was_written(void *userdata, waldo_status status, const waldo_error *error)
{
    file_end *end = userdata;

    (void)error;
    end->count++;
    end->status = status;
}

static void was_read(void *userdata, waldo_status status, waldo_str bytes, uint64_t file_size,
                     const waldo_error *error)
{
    file_end *end = userdata;

    (void)file_size;
    waldo__buf_add_str(&end->bytes, bytes);
    was_written(end, status, error);
}

void put(fixture *f, const char *path, waldo_str bytes)
{
    file_end end = { .count = 0 };

    waldo_sandbox_write(f->sandbox, path, bytes, 0, was_written, &end);
    wait_file(f, &end, path);
}

char *get(fixture *f, const char *path, size_t *ret_len)
{
    file_end end = { .bytes = WALDO__BUF_INIT(64 * 1024 * 1024) };

    waldo_sandbox_read(f->sandbox, path, 0, 64 * 1024 * 1024, was_read, &end);
    wait_file(f, &end, path);
    return waldo__buf_take(&end.bytes, ret_len);
}

void shell(fixture *f, const char *cmd)
{
    waldo_exec_result *result = NULL;
    waldo_error *error = NULL;

    if (waldo_sandbox_exec_wait(f->sandbox, &WALDO_EXEC(.cmd = cmd), &result, &error) != WALDO_OK) {
        fail_msg("%s: %s", cmd, waldo_error_message(error));
    }
    if (result->end != WALDO_EXEC_EXITED || result->exit_code != 0) {
        fail_msg("%s: %.*s", cmd, (int)result->err.bytes.len, result->err.bytes.ptr);
    }
    waldo_exec_result_free(result);
}

void wait_quiet(fixture *f, const char *path)
{
    char cmd[300];

    snprintf(cmd, sizeof cmd,
             "while a=$(wc -c <%s); sleep 0.3; [ \"$a\" != \"$(wc -c <%s)\" ]; do :; done", path,
             path);
    shell(f, cmd);
}

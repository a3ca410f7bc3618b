/*
 * usage: durable-tool SANDBOX STATE
 * A host of a machine that outlives it, told what to do by lines on standard input; each is
 * answered by one line (output is in hex). STATE is a file with the saved bytes: they are used when
 * it is there. Commands: open, save, start CMD, read NUMBER OFFSET MS, follow NUMBER OFFSET MS (OK
 * first, then what read says), write NUMBER TEXT, eof NUMBER, cancel NUMBER, list, exec CMD,
 * changes, pause, resume, url PORT, net none|all|HOST, detach, close, check SANDBOX, finish.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <waldo/waldo.h>

enum { STATE_MAX = 256 * 1024, LINE_MAX_LEN = 65536, OUTPUT_MAX = 1024 * 1024 };

typedef struct outcome {
    int done;
    waldo_status status;
} outcome;

static waldo_runtime *rt;
static waldo_sandbox *sandbox;
static const char *state_path;

static void told(outcome *out, waldo_status status, const waldo_error *error)
{
    out->done = 1;
    out->status = status;
    if (status != WALDO_OK) {
        printf("%s %s\n", waldo_status_name(status), waldo_error_message(error));
    }
}

static void refused(waldo_status status, waldo_error *error)
{
    printf("%s %s\n", waldo_status_name(status), waldo_error_message(error));
    waldo_error_free(error);
}

static void wait_for(outcome *out)
{
    while (!out->done) {
        waldo_runtime_step(rt, WALDO_FOREVER);
    }
}

static void on_done(void *userdata, waldo_status status, const waldo_error *error)
{
    told(userdata, status, error);
    if (status == WALDO_OK) {
        printf("OK\n");
    }
}

static void on_saved(void *userdata, waldo_status status, waldo_str saved, const waldo_error *error)
{
    FILE *file;

    told(userdata, status, error);
    if (status == WALDO_OK) {
        file = fopen(state_path, "we");
        if (file == NULL || fwrite(saved.ptr, 1, saved.len, file) != saved.len ||
            fclose(file) != 0) {
            printf("cannot write the state\n");
            return;
        }
        printf("OK %zu\n", saved.len);
    }
}

static void put_hex(waldo_str bytes)
{
    putchar('-');
    for (size_t i = 0; i < bytes.len; i++) {
        printf("%02x", (unsigned)(unsigned char)bytes.ptr[i]);
    }
}

static void on_news(void *userdata, waldo_status status, const waldo_background_news *news,
                    const waldo_error *error)
{
    told(userdata, status, error);
    if (status != WALDO_OK) {
        return;
    }
    printf("OK next=%" PRIu64 " omitted=%" PRIu64 " ", news->next, news->output.omitted);
    if (news->result == NULL) {
        printf("running ");
    } else {
        printf("end=%d code=%d ", (int)news->result->end, (int)news->result->exit_code);
    }
    put_hex(news->output.bytes);
    putchar('\n');
}

static void on_patch(void *userdata, waldo_status status, waldo_str patch, const waldo_error *error)
{
    told(userdata, status, error);
    if (status == WALDO_OK) {
        printf("OK ");
        put_hex(patch);
        putchar('\n');
    }
}

static waldo_sandbox *make(const char *text)
{
    static char saved[STATE_MAX];
    waldo_sandbox_spec *spec =
        waldo_sandbox_spec_new(&WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS(text)));
    FILE *file = fopen(state_path, "re");
    waldo_error *error = NULL;
    waldo_sandbox *made;
    size_t len;

    if (file == NULL) {
        made = waldo_sandbox_new(rt, spec);
    } else {
        len = fread(saved, 1, sizeof saved, file);
        fclose(file);
        made = waldo_sandbox_open_saved(rt, spec, (waldo_str){ saved, len }, &error);
        if (made == NULL) {
            refused(waldo_error_status(error), error);
        }
    }
    waldo_sandbox_spec_unref(spec);
    return made;
}

static void start(const char *cmd)
{
    waldo_error *error = NULL;
    int64_t number = 0;
    waldo_status status = waldo_background_start(
        sandbox, &WALDO_EXEC(.cmd = cmd, .flags = WALDO_EXEC_KEEP_STDIN), &number, &error);

    if (status != WALDO_OK) {
        refused(status, error);
    } else {
        printf("OK %" PRId64 "\n", number);
    }
}

static void read_on(const char *line, int says_so)
{
    outcome out = { 0 };
    waldo_error *error = NULL;
    char *end;
    int64_t number = strtoll(line, &end, 10);
    uint64_t offset = strtoull(end, &end, 10);
    int64_t ms = strtoll(end, &end, 10);
    waldo_status status =
        waldo_background_read(sandbox, number, offset, OUTPUT_MAX, ms, on_news, &out, NULL, &error);

    if (status != WALDO_OK) {
        refused(status, error);
        return;
    }
    if (says_so) {
        printf("OK\n");
        fflush(stdout);
    }
    wait_for(&out);
}

static void list(void)
{
    waldo_background_info infos[WALDO_BACKGROUND_MAX];
    size_t count = waldo_background_list(sandbox, infos, WALDO_BACKGROUND_MAX);

    printf("OK");
    for (size_t i = 0; i < count; i++) {
        printf(" %" PRId64 "%s", infos[i].number, infos[i].running ? "+" : "");
    }
    putchar('\n');
}

static void exec(const char *cmd)
{
    waldo_exec_result *result = NULL;
    waldo_error *error = NULL;
    waldo_status status =
        waldo_sandbox_exec_wait(sandbox, &WALDO_EXEC(.cmd = cmd), &result, &error);

    if (status != WALDO_OK) {
        refused(status, error);
        return;
    }
    printf("OK end=%d code=%d ", (int)result->end, (int)result->exit_code);
    put_hex(result->both.bytes);
    putchar('\n');
    waldo_exec_result_free(result);
}

static void write_to(const char *line, int eof)
{
    char *end;
    int64_t number = strtoll(line, &end, 10);
    char text[LINE_MAX_LEN];
    int len = eof ? 0 : snprintf(text, sizeof text, "%s\n", *end == ' ' ? end + 1 : end);
    waldo_status status;

    status = waldo_background_write(sandbox, number, (waldo_str){ text, (size_t)len }, eof);
    printf("%s\n", status == WALDO_OK ? "OK" : waldo_status_name(status));
}

static const struct {
    const char *word;
    void (*fn)(waldo_sandbox *of, waldo_sandbox_fn done, void *userdata);
} plain[] = { { "open", waldo_sandbox_open },
              { "detach", waldo_sandbox_detach },
              { "close", waldo_sandbox_close },
              { "pause", waldo_sandbox_pause },
              { "resume", waldo_sandbox_resume } };

/* 1: it was one of those without arguments. */
static int obey_plain(const char *word)
{
    outcome out = { 0 };

    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        if (strcmp(word, plain[i].word) == 0) {
            plain[i].fn(sandbox, on_done, &out);
            wait_for(&out);
            return 1;
        }
    }
    return 0;
}

static void check(const char *text)
{
    waldo_sandbox_spec *spec =
        waldo_sandbox_spec_new(&WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS(text)));
    outcome out = { 0 };

    waldo_sandbox_check(rt, spec, on_done, &out);
    wait_for(&out);
    waldo_sandbox_spec_unref(spec);
}

static void on_url(void *userdata, waldo_status status, waldo_str url, const waldo_error *error)
{
    told(userdata, status, error);
    if (status == WALDO_OK) {
        printf("OK %s\n", url.ptr);
    }
}

static void set_net(const char *text, outcome *out)
{
    waldo_net net = strcmp(text, "none") == 0  ? WALDO_NET_NONE
                    : strcmp(text, "all") == 0 ? WALDO_NET_ALL
                                               : WALDO_NET_HOSTS;

    waldo_sandbox_set_net(sandbox, net, net == WALDO_NET_HOSTS ? WALDO_STRINGS(text) : NULL,
                          on_done, out);
}

static void obey(char *line)
{
    outcome out = { 0 };
    char *rest = strchr(line, ' ');

    if (rest != NULL) {
        *rest++ = '\0';
    }
    if (obey_plain(line)) {
        return;
    }
    if (strcmp(line, "save") == 0) {
        waldo_sandbox_save(sandbox, on_saved, &out);
        wait_for(&out);
    } else if (strcmp(line, "changes") == 0) {
        waldo_sandbox_changes(sandbox, on_patch, &out);
        wait_for(&out);
    } else if (strcmp(line, "list") == 0) {
        list();
    } else if (rest == NULL) {
        printf("what is %s?\n", line);
    } else if (strcmp(line, "start") == 0) {
        start(rest);
    } else if (strcmp(line, "read") == 0 || strcmp(line, "follow") == 0) {
        read_on(rest, line[0] == 'f');
    } else if (strcmp(line, "exec") == 0) {
        exec(rest);
    } else if (strcmp(line, "write") == 0 || strcmp(line, "eof") == 0) {
        write_to(rest, line[0] == 'e');
    } else if (strcmp(line, "check") == 0) {
        check(rest);
    } else if (strcmp(line, "url") == 0) {
        waldo_sandbox_port_url(sandbox, (uint32_t)strtoul(rest, NULL, 10), on_url, &out);
        wait_for(&out);
    } else if (strcmp(line, "net") == 0) {
        set_net(rest, &out);
        wait_for(&out);
    } else if (strcmp(line, "cancel") == 0) {
        waldo_background_cancel(sandbox, strtoll(rest, NULL, 10));
        printf("OK\n");
    } else {
        printf("what is %s?\n", line);
    }
}

int main(int argc, char **argv)
{
    static char line[LINE_MAX_LEN];

    if (argc != 3) {
        return 2;
    }
    state_path = argv[2];
    rt =
        waldo_runtime_new(&WALDO_RUNTIME(.log_level = WALDO_LOG_WARN, .keys = WALDO_KEYS_FROM_ENV));
    sandbox = make(argv[1]);
    while (sandbox != NULL && fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strcmp(line, "finish") == 0) {
            break;
        }
        obey(line);
        fflush(stdout);
    }
    waldo_sandbox_unref(sandbox);
    waldo_runtime_finish(rt);
    return sandbox == NULL;
}

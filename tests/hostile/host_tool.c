/*
 * usage: host-tool SANDBOX WORKSPACE
 * A host with two sandboxes, a and b, that is told line by line what to do and answers with a line
 * each. Words are percent-coded and separated by blanks: run SANDBOX MS CMD; start SANDBOX MS CMD
 * (answers at its first output); wait (for all that were started; a line each, then "waited");
 * read, write, changes, close SANDBOX [PATH [BYTES]].
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "sandbox/sandbox.h"

enum { LINE_MAX_BYTES = 65536, WORDS = 4, SAID_MAX = 4096, READ_MAX = 65536 };

static waldo_runtime *rt;
static waldo_sandbox *sandboxes[2];
static int running;
static int heard;

static void put(waldo_str text)
{
    size_t len = text.len < SAID_MAX ? text.len : SAID_MAX;

    putchar(' ');
    for (size_t i = 0; i < len; i++) {
        printf("%%%02x", (unsigned char)text.ptr[i]);
    }
}

static void decode(char *text)
{
    char *to = text;

    for (const char *at = text; *at != '\0'; at++) {
        unsigned value;

        if (*at == '%' && sscanf(at + 1, "%2x", &value) == 1) {
            *to++ = (char)value;
            at += 2;
        } else {
            *to++ = *at;
        }
    }
    *to = '\0';
}

static void on_end(void *userdata, waldo_status status, const waldo_exec_result *result,
                   const waldo_error *error)
{
    static const char *const ends[] = { "?",         "exited", "signaled", "timed-out",
                                        "cancelled", "oom",    "lost" };

    (void)userdata;
    running--;
    printf("%s", status == WALDO_OK ? ends[result->end] : waldo_status_name(status));
    printf(" %d", status == WALDO_OK ? result->exit_code : -1);
    put(status == WALDO_OK ? result->out.bytes : WALDO__S(""));
    put(status == WALDO_OK ? result->err.bytes : waldo__str(waldo_error_message(error)));
    printf(" %llu\n", status == WALDO_OK ? (unsigned long long)result->both.total : 0);
}

static void on_output(void *userdata, int stream, waldo_str bytes)
{
    (void)userdata;
    (void)stream;
    (void)bytes;
    heard = 1;
}

static void on_done(void *userdata, waldo_status status, const waldo_error *error)
{
    (void)userdata;
    running--;
    printf("%s 0", waldo_status_name(status));
    put(WALDO__S(""));
    put(waldo__str(waldo_error_message(error)));
    printf(" 0\n");
}

static void on_bytes(void *userdata, waldo_status status, waldo_str bytes, uint64_t file_size,
                     const waldo_error *error)
{
    (void)userdata;
    running--;
    printf("%s 0", waldo_status_name(status));
    put(bytes);
    put(waldo__str(waldo_error_message(error)));
    printf(" %llu\n", (unsigned long long)file_size);
}

static void on_patch(void *userdata, waldo_status status, waldo_str patch, const waldo_error *error)
{
    on_bytes(userdata, status, patch, patch.len, error);
}

static void execute(waldo_sandbox *sandbox, const char *ms, const char *cmd)
{
    waldo_error *error = NULL;
    waldo_status status;

    running++;
    heard = 0;
    status = waldo_sandbox_exec(sandbox,
                                &WALDO_EXEC(.cmd = cmd, .timeout_ms = strtol(ms, NULL, 10),
                                            .grace_ms = 200, .on_output = on_output),
                                on_end, NULL, NULL, &error);
    if (status != WALDO_OK) {
        on_end(NULL, status, NULL, error);
        waldo_error_free(error);
    }
}

static void drive(int until)
{
    while (running > until) {
        waldo_runtime_step(rt, WALDO_FOREVER);
    }
}

static void obey(char **words)
{
    waldo_sandbox *sandbox = sandboxes[words[1][0] == 'b'];
    int before = running;

    if (strcmp(words[0], "run") == 0) {
        execute(sandbox, words[2], words[3]);
    } else if (strcmp(words[0], "start") == 0) {
        execute(sandbox, words[2], words[3]);
        while (!heard && running > before) {
            waldo_runtime_step(rt, WALDO_FOREVER);
        }
        if (running > before) {
            printf("started\n");
        }
        return;
    } else if (strcmp(words[0], "wait") == 0) {
        drive(0);
        printf("waited\n");
        return;
    } else if (strcmp(words[0], "read") == 0) {
        running++;
        waldo_sandbox_read(sandbox, words[2], 0, READ_MAX, on_bytes, NULL);
    } else if (strcmp(words[0], "write") == 0) {
        running++;
        waldo_sandbox_write(sandbox, words[2], waldo__str(words[3]), 0, on_done, NULL);
    } else if (strcmp(words[0], "changes") == 0) {
        running++;
        waldo_sandbox_changes(sandbox, on_patch, NULL);
    } else if (strcmp(words[0], "close") == 0) {
        running++;
        waldo_sandbox_close(sandbox, on_done, NULL);
    } else {
        printf("no such order\n");
    }
    drive(before);
}

int main(int argc, char **argv)
{
    static char line[LINE_MAX_BYTES];
    static char none[] = "";
    waldo_sandbox_spec *spec;

    if (argc != 3) {
        fprintf(stderr, "usage: host-tool SANDBOX WORKSPACE\n");
        return 2;
    }
    rt = waldo_runtime_new(&WALDO_RUNTIME(.log_level = WALDO_LOG_WARN));
    spec = waldo_sandbox_spec_new(
        &WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS(argv[1]), .workspace = argv[2]));
    for (int i = 0; i < 2; i++) {
        sandboxes[i] = waldo_sandbox_new(rt, spec);
    }
    waldo_sandbox_spec_unref(spec);
    while (fgets(line, sizeof line, stdin) != NULL) {
        char *words[WORDS] = { none, none, none, none };
        char *rest = line;

        for (int i = 0; i < WORDS && rest != NULL; i++) {
            words[i] = strsep(&rest, " \n");
            decode(words[i]);
        }
        obey(words);
        fflush(stdout);
    }
    waldo_sandbox_unref(sandboxes[0]);
    waldo_sandbox_unref(sandboxes[1]);
    waldo_runtime_free(rt);
    return 0;
}

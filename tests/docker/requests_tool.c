/*
 * usage: requests-tool SANDBOX
 * Does the operations of tests/contract/requests.txt that it reads, a line each, on one sandbox,
 * and answers each with a line; between them its loop stands still. "settle" waits for a spare.
 */
#include <stdio.h>
#include <string.h>

#include "sandbox/live.h"

static waldo_runtime *rt;
static waldo_sandbox_spec *spec;
static waldo_sandbox *sandbox;
static waldo_sandbox *second; /* of open_with_spare, which is asked for once */
static int ended;
static waldo_status how;

static void took_done(void *userdata, waldo_status status, const waldo_error *error)
{
    (void)userdata;
    ended = 1;
    how = status;
    fprintf(stderr, "%s", waldo_error_message(error));
}

static void took_exec(void *userdata, waldo_status status, const waldo_exec_result *result,
                      const waldo_error *error)
{
    (void)result;
    took_done(userdata, status, error);
}

static void took_bytes(void *userdata, waldo_status status, waldo_str bytes, uint64_t file_size,
                       const waldo_error *error)
{
    (void)bytes;
    (void)file_size;
    took_done(userdata, status, error);
}

static int have_spare(void)
{
    const waldo__sandbox_node *head = waldo__runtime_sandboxes(rt);

    for (waldo__sandbox_node *node = head->next; node != head; node = node->next) {
        const waldo_sandbox *other = waldo__sandbox_of_node(node);

        if (other->is_spare && other->state == WALDO__LIVE_OPEN) {
            return 1;
        }
    }
    return 0;
}

static int begin(const char *operation)
{
    if (strcmp(operation, "command") == 0) {
        return waldo_sandbox_exec(sandbox, &WALDO_EXEC(.cmd = "echo hello"), took_exec, NULL, NULL,
                                  NULL) == WALDO_OK;
    }
    if (strcmp(operation, "write") == 0) {
        waldo_sandbox_write(sandbox, "/tmp/file", waldo__str("some text"), 0, took_done, NULL);
    } else if (strcmp(operation, "read") == 0) {
        waldo_sandbox_read(sandbox, "/tmp/file", 0, 4096, took_bytes, NULL);
    } else if (strcmp(operation, "open_with_spare") == 0) {
        second = waldo_sandbox_new(rt, spec);
        waldo_sandbox_open(second, took_done, NULL);
    } else {
        return 0;
    }
    return 1;
}

int main(int argc, char **argv)
{
    char line[64];

    if (argc != 2) {
        return 2;
    }
    rt = waldo_runtime_new(&WALDO_RUNTIME(.keys = WALDO_KEYS_FROM_ENV));
    spec = waldo_sandbox_spec_new(&WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS(argv[1])));
    sandbox = waldo_sandbox_new(rt, spec);
    how = WALDO_OK;
    while (how == WALDO_OK && fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        ended = 0;
        if (strcmp(line, "settle") == 0) {
            while (!have_spare()) {
                waldo_runtime_step(rt, WALDO_FOREVER);
            }
        } else if (!begin(line)) {
            return 3;
        } else {
            while (!ended) {
                waldo_runtime_step(rt, WALDO_FOREVER);
            }
        }
        puts(waldo_status_name(how));
        fflush(stdout);
    }
    waldo_sandbox_unref(second);
    waldo_sandbox_unref(sandbox);
    waldo_sandbox_spec_unref(spec);
    waldo_runtime_finish(rt);
    return how != WALDO_OK;
}

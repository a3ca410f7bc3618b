#include "waldo_side.h"

#include <waldo/waldo.h>

#include <stdio.h>
#include <stdlib.h>

enum { REST_MS = 500 };

static waldo_runtime *runtime;
static waldo_sandbox_spec *spec;
static waldo_sandbox *sandbox;
static char *zeros;

struct outcome {
    int left;
    int bad;
    size_t bytes;
};

static void took_done(void *userdata, waldo_status status, const waldo_error *error)
{
    struct outcome *out = userdata;

    out->left--;
    if (status != WALDO_OK) {
        fprintf(stderr, "waldo: %s\n", waldo_error_message(error));
        out->bad++;
    }
}

static void took_exec(void *userdata, waldo_status status, const waldo_exec_result *result,
                      const waldo_error *error)
{
    struct outcome *out = userdata;

    took_done(userdata, status, error);
    if (status == WALDO_OK && (result->end != WALDO_EXEC_EXITED || result->exit_code != 0)) {
        out->bad++;
    }
}

static void took_read(void *userdata, waldo_status status, waldo_str bytes, uint64_t file_size,
                      const waldo_error *error)
{
    struct outcome *out = userdata;

    (void)file_size;
    out->bytes = bytes.len;
    took_done(userdata, status, error);
}

static bool wait_for(struct outcome *out)
{
    while (out->left > 0 && waldo_runtime_step(runtime, WALDO_FOREVER) == WALDO_OK) {
    }
    return out->left == 0 && out->bad == 0;
}

bool waldo_side_begin(const char *name)
{
    runtime = waldo_runtime_new(&WALDO_RUNTIME(.keys = WALDO_KEYS_FROM_ENV));
    spec = waldo_sandbox_spec_new(&WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS(name)));
    return runtime != NULL && waldo_side_renew();
}

void waldo_side_end(void)
{
    waldo_sandbox_unref(sandbox);
    waldo_sandbox_spec_unref(spec);
    waldo_runtime_finish(runtime);
    free(zeros);
}

bool waldo_side_renew(void)
{
    struct outcome out = { .left = 1 };

    if (sandbox != NULL) {
        waldo_sandbox_close(sandbox, took_done, &out);
        wait_for(&out);
        waldo_sandbox_unref(sandbox);
    }
    sandbox = waldo_sandbox_new(runtime, spec);
    return sandbox != NULL;
}

bool waldo_side_rest(void)
{
    waldo_status status;

    do {
        status = waldo_runtime_step(runtime, REST_MS);
    } while (status == WALDO_OK);
    return status == WALDO_ETIMEDOUT;
}

bool waldo_side_exec(int count)
{
    struct outcome out = { .left = count };

    for (int i = 0; i < count; i++) {
        if (waldo_sandbox_exec(sandbox, &WALDO_EXEC(.argv = WALDO_STRINGS("true")), took_exec, &out,
                               NULL, NULL) != WALDO_OK) {
            return false;
        }
    }
    return wait_for(&out);
}

bool waldo_side_write(size_t bytes)
{
    struct outcome out = { .left = 1 };

    zeros = zeros == NULL ? calloc(1, bytes) : zeros;
    if (zeros == NULL) {
        return false;
    }
    waldo_sandbox_write(sandbox, "file", (waldo_str){ zeros, bytes }, 0644, took_done, &out);
    return wait_for(&out);
}

bool waldo_side_read(size_t bytes)
{
    struct outcome out = { .left = 1 };

    waldo_sandbox_read(sandbox, "file", 0, bytes, took_read, &out);
    return wait_for(&out) && out.bytes == bytes;
}

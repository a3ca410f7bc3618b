/* A workspace on its way into a machine while every allocation fails in turn. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "failing.h"
#include "sandbox/live.h"
#include "sandbox/registry.h"

enum { PATIENCE_MS = 60000, MOST_ALLOCATIONS = 5000 };

static char folder[] = "/tmp/waldo-test-upload-XXXXXX";

typedef struct outcome {
    int count;
    waldo_status status;
} outcome;

static void took_done(void *userdata, waldo_status status, const waldo_error *error)
{
    outcome *out = userdata;

    (void)error;
    out->count++;
    out->status = status;
}

static waldo_status open_once(waldo_runtime *rt, waldo_sandbox *sandbox)
{
    outcome out = { 0 };

    waldo_sandbox_open(sandbox, took_done, &out);
    while (out.count == 0) {
        assert_int_equal(waldo_runtime_step(rt, PATIENCE_MS), WALDO_OK);
    }
    assert_int_equal(out.count, 1);
    return out.status;
}

/* It opens, or fails since memory was out, and then opens the next time. */
static void one_opening(const char *backend)
{
    waldo_runtime *rt = waldo_runtime_new(NULL);
    waldo_sandbox_spec *spec = waldo_sandbox_spec_new(
        &WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS(backend), .workspace = folder));
    waldo_sandbox *sandbox = waldo_sandbox_new(rt, spec);
    waldo_status status;

    waldo_sandbox_spec_unref(spec);
    failing.on = 1;
    status = open_once(rt, sandbox);
    failing.on = 0;
    if (status != WALDO_OK && failing.failed == 0) {
        fail_msg("%s, allocation %zu: %s", backend, failing.fail_at, waldo_status_name(status));
    }
    assert_int_equal(open_once(rt, sandbox), WALDO_OK);
    waldo_sandbox_unref(sandbox);
    waldo_runtime_finish(rt);
}

static void walks_an_upload(void **state)
{
    size_t steps = 0;

    failing_begin();
    one_opening(*state);
    while (failing_next(MOST_ALLOCATIONS)) {
        one_opening(*state);
        steps++;
    }
    assert_true(steps > 5);
}

static void put(const char *name)
{
    char path[64];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "we");
    assert_non_null(file);
    fputs("text\n", file);
    fclose(file);
}

static int begin(void **state)
{
    char path[64];

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/sub", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    put("one");
    put("sub/two");
    return 0;
}

static int end(void **state)
{
    static const char *const names[] = { "sub/two", "one", "sub", "" };
    char path[64];

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        remove(path);
    }
    return 0;
}

int main(void)
{
    static waldo_backend_ops plain;
    static char names[][8] = { "fake:", "plain:" };
    const struct CMUnitTest tests[] = {
        { "by archive", walks_an_upload, NULL, NULL, names[0] },
        { "file by file", walks_an_upload, NULL, NULL, names[1] },
    };

    failing_install();
    plain = *waldo__backend_find(waldo__str("fake"));
    plain.name = "plain";
    plain.restore = NULL;
    if (waldo_backend_register(&plain, NULL) != WALDO_OK) {
        return 2;
    }
    return !!cmocka_run_group_tests(tests, begin, end);
}

/* What tests of scripted sandboxes share: one agent, run to its end. Public headers only. */
#ifndef WALDO_TEST_SCRIPTED_H
#define WALDO_TEST_SCRIPTED_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <waldo/testing.h>
#include <waldo/waldo.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define RUN(cmd)     .call = "exec_command", .args = "{\"cmd\":\"" cmd "\"}"

enum { WAIT_MS = 60000, ALL_TOOLS = WALDO_SHELL | WALDO_FILES | WALDO_APPLY_PATCH };

/* What a run came to. */
typedef struct outcome {
    waldo_status status;
    char text[512];
    char error[1024];
} outcome;

/* Run an agent with these turns in these sandboxes, in a runtime of its own. */
static inline outcome run_in(const char *const *backends, const char *workspace,
                             const waldo_testing_turn *turns, size_t count)
{
    waldo_runtime *rt = waldo_runtime_new(NULL);
    waldo_model *model = waldo_testing_model(turns, count);
    waldo_sandbox_spec *spec =
        waldo_sandbox_spec_new(&WALDO_SANDBOX_SPEC(.backends = backends, .workspace = workspace));
    waldo_agent *agent =
        waldo_agent_new(&WALDO_AGENT(.model_object = model, .spec = spec, .instructions = "Work.",
                                     .capabilities = ALL_TOOLS));
    waldo_run *run = waldo_run_new(rt, agent, &WALDO_RUN(.prompt = "go"));
    outcome got = { .status = run != NULL ? waldo_run_wait(run, WAIT_MS) : WALDO_ENOMEM };

    if (run != NULL) {
        snprintf(got.text, sizeof got.text, "%s", waldo_run_text(run));
        snprintf(got.error, sizeof got.error, "%s", waldo_run_errmsg(run));
    }
    waldo_agent_unref(agent);
    waldo_sandbox_spec_unref(spec);
    waldo_model_unref(model);
    waldo_runtime_finish(rt);
    return got;
}

#define RUN_IN(turns, ...) run_in(WALDO_STRINGS(__VA_ARGS__), NULL, (turns), COUNT(turns))

#define assert_contains(text, part)                                                                \
    do {                                                                                           \
        if (strstr((text), (part)) == NULL) {                                                      \
            fail_msg("\"%s\" is not in:\n%s", (part), (text));                                     \
        }                                                                                          \
    } while (0)

/* A run that ends well, or the reason. */
#define assert_ran(got)                                                                            \
    do {                                                                                           \
        const outcome ran = (got);                                                                 \
        if (ran.status != WALDO_OK) {                                                              \
            fail_msg("%s", ran.error);                                                             \
        }                                                                                          \
        assert_string_equal(ran.text, "done");                                                     \
    } while (0)

/* Checked, and what it says when it fails; the sandbox is freed. */
static inline void assert_checked(waldo_testing_sandbox *sandbox, const char *said)
{
    waldo_error *error = NULL;
    waldo_status status = waldo_testing_sandbox_check(sandbox, &error);

    if (said == NULL && status != WALDO_OK) {
        fail_msg("%s", waldo_error_message(error));
    }
    if (said != NULL) {
        assert_int_equal(status, WALDO_EINVAL);
        assert_string_equal(waldo_error_message(error), said);
    }
    waldo_error_free(error);
    waldo_testing_sandbox_free(sandbox);
}

static inline void assert_file(const waldo_testing_sandbox *sandbox, const char *path,
                               const char *content)
{
    waldo_str bytes;

    assert_int_equal(waldo_testing_sandbox_file(sandbox, path, &bytes), WALDO_OK);
    assert_string_equal(bytes.ptr, content);
    assert_int_equal(bytes.len, strlen(content));
}

#endif

/* Machines that are not what their class says: another grade, fewer abilities, a note about it. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>

#include "sandbox/registry.h"
#include "sandbox/sandbox.h"

static waldo_machine_info said; /* what describe says */
static waldo_backend_ops mine;

static void describe(const waldo_machine *machine, waldo_machine_info *ret_info)
{
    (void)machine;
    if (ret_info->caps == mine.caps && ret_info->isolation == mine.isolation) {
        *ret_info = said;
    }
}

static waldo_status any_parse(const waldo_backend_spec *spec, waldo_error **ret_err)
{
    (void)spec;
    (void)ret_err;
    return WALDO_OK;
}

typedef struct told {
    int done;
    waldo_status status;
    char text[512];
    waldo__sandbox_listener listener;
    char news[512];
} told;

static void on_news(void *userdata, const char *what, const char *text)
{
    told *t = userdata;
    size_t used = strlen(t->news);

    snprintf(t->news + used, sizeof t->news - used, "%s: %s\n", what, text);
}

static void on_done(void *userdata, waldo_status status, const waldo_error *error)
{
    told *t = userdata;

    t->done++;
    t->status = status;
    snprintf(t->text, sizeof t->text, "%s", waldo_error_message(error));
}

/* Open one and write a file: what became of both. */
static told open_one(const char *text, waldo_isolation *ret_isolation)
{
    waldo_runtime *rt = waldo_runtime_new(&WALDO_RUNTIME(.log_level = WALDO_LOG_ERROR));
    waldo_sandbox_spec *spec =
        waldo_sandbox_spec_new(&WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS(text)));
    waldo_sandbox *sandbox = waldo_sandbox_new(rt, spec);
    told t = { .listener = { .fn = on_news } };

    t.listener.userdata = &t;
    waldo__sandbox_listen(sandbox, &t.listener);
    waldo_sandbox_write(sandbox, "f", waldo__str("x"), 0, on_done, &t);
    while (!t.done) {
        assert_int_equal(waldo_runtime_step(rt, 60000), WALDO_OK);
    }
    waldo_runtime_step(rt, 0);
    *ret_isolation = waldo_sandbox_isolation(sandbox);
    waldo__sandbox_unlisten(sandbox, &t.listener);
    waldo_sandbox_unref(sandbox);
    waldo_sandbox_spec_unref(spec);
    waldo_runtime_free(rt);
    return t;
}

static int setup(void **state)
{
    static const char *const none[] = { NULL };

    (void)state;
    if (mine.name == NULL) {
        mine = *waldo__backend_find(waldo__str("fake"));
        mine.name = "mine";
        mine.parse = any_parse;
        mine.option_names = none;
        mine.describe = describe;
        if (waldo_backend_register(&mine, NULL) != WALDO_OK) {
            return 1;
        }
    }
    said =
        (waldo_machine_info){ .size = sizeof said, .caps = mine.caps, .isolation = mine.isolation };
    return 0;
}

static void a_better_grade(void **state)
{
    waldo_isolation found;
    told t;

    (void)state;
    said.isolation = WALDO_ISOLATION_GVISOR;
    t = open_one("mine:,min_isolation=gvisor", &found);
    assert_int_equal(t.status, WALDO_OK);
    assert_int_equal(found, WALDO_ISOLATION_GVISOR);
    assert_non_null(strstr(t.news, "opened: mine: a machine was opened (isolation: gvisor)"));
}

static void less_than_asked_is_not_opened(void **state)
{
    waldo_isolation found;
    told t;

    (void)state;
    said.isolation = WALDO_ISOLATION_CONTAINER;
    t = open_one("mine:,min_isolation=gvisor", &found);
    assert_int_equal(t.status, WALDO_ENOTSUP);
    assert_non_null(strstr(t.text, "min_isolation is gvisor, but the machine"));
    assert_non_null(strstr(t.text, "container only"));
    assert_int_equal(found, WALDO_ISOLATION_ANY);
    said.isolation = WALDO_ISOLATION_ANY; /* no grade at all */
    t = open_one("mine:", &found);
    assert_int_equal(t.status, WALDO_ENOTSUP);
}

static void fewer_abilities(void **state)
{
    waldo_isolation found;
    told t;

    (void)state;
    said.caps &= ~(uint32_t)WALDO_BACKEND_FILES;
    said.note = "its files cannot be reached";
    t = open_one("mine:", &found);
    assert_int_equal(t.status, WALDO_ENOTSUP);
    assert_non_null(strstr(t.text, "has no file operations"));
    assert_non_null(strstr(t.news, "limited: mine: its files cannot be reached\n"));
}

/* A backend made before the op existed is never asked. */
static void older_backends(void **state)
{
    static waldo_backend_ops old;
    waldo_isolation found;
    told t;

    (void)state;
    old = mine;
    old.name = "old";
    old.version = 1;
    old.size = offsetof(waldo_backend_ops, describe);
    assert_int_equal(waldo_backend_register(&old, NULL), WALDO_OK);
    said.isolation = WALDO_ISOLATION_VM;
    t = open_one("old:", &found);
    assert_int_equal(t.status, WALDO_OK);
    assert_int_equal(found, mine.isolation);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_better_grade, setup),
        cmocka_unit_test_setup(less_than_asked_is_not_opened, setup),
        cmocka_unit_test_setup(fewer_abilities, setup),
        cmocka_unit_test_setup(older_backends, setup),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}

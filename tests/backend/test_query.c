/* Questions without a machine: pages, whose a sandbox is, and who has no key. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "backend/query.h"
#include "base/buf.h"
#include <waldo/error.h>

typedef struct query {
    waldo__query query;
    char own[64]; /* zero at the beginning */
} query;

static struct {
    waldo__loop *loop;
    waldo_status key;
    waldo_status init;
    query *now; /* who waits for an answer */
    char asked[128];
    int freed;
    int done;
    waldo_status status;
    char message[256];
    char told[128];
} s;

static void ask(query *q, const char *what, waldo_str of)
{
    size_t len = strlen(s.asked);

    s.now = q;
    snprintf(s.asked + len, sizeof s.asked - len, "%s(%.*s) ", what, (int)of.len, of.ptr);
}

static waldo_status on_init(waldo__query *base, const waldo_backend_spec *spec,
                            waldo_error **ret_err)
{
    query *q = (query *)base;

    assert_true(spec->size > 0);
    assert_int_equal(q->own[0], 0);
    memset(q->own, 'x', sizeof q->own);
    return s.init == WALDO_OK ? WALDO_OK
                              : waldo_error_set(ret_err, s.init, WALDO_CLASS_USAGE, "no place");
}

static void on_list(waldo__query *base, waldo_str next)
{
    ask((query *)base, "list", next);
}

static void on_inspect(waldo__query *base)
{
    ask((query *)base, "inspect", waldo__str(base->id));
}

static void on_end(waldo__query *base)
{
    ask((query *)base, "end", waldo__str(base->id));
}

static void on_free(waldo__query *base)
{
    (void)base;
    s.freed++;
}

static const waldo__query_fns fns = { "cloud", "CLOUD_KEY", sizeof(query), on_init,
                                      on_list, on_inspect,  on_end,        on_free };

static waldo_status on_key(const waldo_backend_env *env, const char *name, int renew,
                           waldo_error **ret_err)
{
    (void)env;
    assert_string_equal(name, "CLOUD_KEY");
    assert_int_equal(renew, 0);
    return s.key == WALDO_OK ? WALDO_OK
                             : waldo_error_set(ret_err, s.key, WALDO_CLASS_USAGE, "no key");
}

static void on_done(void *userdata, waldo_status status, const waldo_error *error)
{
    assert_ptr_equal(userdata, &s);
    s.done++;
    s.status = status;
    snprintf(s.message, sizeof s.message, "%s", waldo_error_message(error));
}

static void on_each(void *userdata, const waldo_sandbox_info *info)
{
    size_t len = strlen(s.told);

    assert_ptr_equal(userdata, &s);
    snprintf(s.told + len, sizeof s.told - len, "%s/%s ", info->id, info->name);
}

static waldo_backend_env env;
static const waldo_backend_call call = { .size = sizeof call,
                                         .deadline_ns = INT64_MAX,
                                         .userdata = &s };

static int begin(void **state)
{
    (void)state;
    memset(&s, 0, sizeof s);
    assert_int_equal(waldo__loop_new(&s.loop, NULL), WALDO_OK);
    env = (waldo_backend_env){ .size = sizeof env, .loop = s.loop, .key = on_key };
    return 0;
}

static int end(void **state)
{
    (void)state;
    assert_int_equal(s.done, 1);
    assert_int_equal(s.freed, 1);
    waldo__loop_free(s.loop);
    return 0;
}

/* One of a page, as its provider shows it. */
static void see(const char *id, const char *labels)
{
    waldo_sandbox_info info = { .size = sizeof info, .id = id };
    waldo__json *doc = NULL;

    assert_int_equal(waldo__json_parse(waldo__str(labels), NULL, &doc, NULL), WALDO_OK);
    waldo__query_see(&s.now->query, &info, waldo__json_root(doc));
    waldo__json_free(doc);
}

#define OURS "{\"dev.waldo.run\":\"r\",\"dev.waldo.name\":\"lab\"}"

static void page_after_page(void **state)
{
    (void)state;
    waldo__query_list(&fns, &env, &call, on_each, on_done);
    see("a1", OURS);
    see("b2", "{\"dev.waldo.name\":\"another's\"}");
    see("no id", OURS);
    waldo__query_listed(&s.now->query, WALDO_OK, NULL, WALDO__S("page2"));
    see("c3", OURS);
    waldo__query_listed(&s.now->query, WALDO_OK, NULL, WALDO__S(""));
    assert_string_equal(s.asked, "list() list(page2) ");
    assert_string_equal(s.told, "a1/lab c3/lab ");
    assert_int_equal(s.status, WALDO_OK);
}

/* A provider whose pages never end is believed a thousand times. */
static void pages_without_end(void **state)
{
    unsigned pages = 0;

    (void)state;
    waldo__query_list(&fns, &env, &call, on_each, on_done);
    while (!s.done && ++pages < 5000) {
        s.asked[0] = '\0';
        waldo__query_listed(&s.now->query, WALDO_OK, NULL, WALDO__S("again"));
    }
    assert_int_equal(pages, 1000);
}

static void a_page_fails(void **state)
{
    waldo_error *why = NULL;

    (void)state;
    waldo__query_list(&fns, &env, &call, on_each, on_done);
    waldo_error_set(&why, WALDO_ERATE, WALDO_CLASS_PROVIDER, "slower");
    waldo__query_listed(&s.now->query, WALDO_ERATE, why, WALDO__S("more"));
    waldo_error_free(why);
    assert_int_equal(s.status, WALDO_ERATE);
    assert_string_equal(s.message, "slower");
}

static void a_probe_takes_one_page(void **state)
{
    (void)state;
    waldo__query_check(&fns, &env, NULL, &call, on_done);
    see("a1", OURS);
    waldo__query_listed(&s.now->query, WALDO_OK, NULL, WALDO__S("page2"));
    assert_string_equal(s.asked, "list() ");
    assert_string_equal(s.told, "");
    assert_int_equal(s.status, WALDO_OK);
}

static void complete_later(void)
{
    assert_int_equal(s.done, 0); /* never from inside the op */
    waldo__loop_round(s.loop, 0, 0);
    assert_string_equal(s.asked, "");
}

static void who_has_no_key(void **state)
{
    (void)state;
    s.key = WALDO_EAUTH;
    waldo__query_check(&fns, &env, NULL, &call, on_done);
    complete_later();
    assert_int_equal(s.status, WALDO_EAUTH);
    assert_string_equal(s.message, "no key");
}

static void who_has_no_key_has_no_sandboxes(void **state)
{
    (void)state;
    s.key = WALDO_EAUTH;
    waldo__query_list(&fns, &env, &call, on_each, on_done);
    complete_later();
    assert_int_equal(s.status, WALDO_OK);
    assert_string_equal(s.message, "");
}

static void there_is_no_such_place(void **state)
{
    (void)state;
    s.init = WALDO_EINVAL;
    waldo__query_list(&fns, &env, &call, on_each, on_done);
    complete_later();
    assert_int_equal(s.status, WALDO_EINVAL);
    assert_string_equal(s.message, "no place");
}

static void inspected(waldo_status status, const char *labels)
{
    waldo__json *doc = NULL;

    assert_int_equal(waldo__json_parse(waldo__str(labels), NULL, &doc, NULL), WALDO_OK);
    waldo__query_inspected(&s.now->query, status, NULL, waldo__json_root(doc));
    waldo__json_free(doc);
}

static void one_of_ours_is_ended(void **state)
{
    (void)state;
    waldo__query_end(&fns, &env, &call, "a1", on_done);
    inspected(WALDO_OK, OURS);
    assert_string_equal(s.asked, "inspect(a1) end(a1) ");
    waldo__query_ended(&s.now->query, WALDO_OK, NULL);
    assert_int_equal(s.status, WALDO_OK);
}

static void anothers_is_not_ended(void **state)
{
    (void)state;
    waldo__query_end(&fns, &env, &call, "a1", on_done);
    inspected(WALDO_OK, "{\"run\":\"r\"}");
    assert_string_equal(s.asked, "inspect(a1) ");
    assert_int_equal(s.status, WALDO_ENOTFOUND);
    assert_string_equal(s.message, "cloud: the sandbox a1 is not one of waldo's");
}

static void there_is_no_such_one(void **state)
{
    (void)state;
    waldo__query_end(&fns, &env, &call, "a1", on_done);
    inspected(WALDO_ENOTFOUND, "{}");
    assert_string_equal(s.asked, "inspect(a1) ");
    assert_int_equal(s.status, WALDO_ENOTFOUND);
}

static void there_can_be_no_such_one(void **state)
{
    (void)state;
    waldo__query_end(&fns, &env, &call, "../a1", on_done);
    complete_later();
    assert_int_equal(s.status, WALDO_ENOTFOUND);
    assert_string_equal(s.message, "cloud: no sandbox has such an id");
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(page_after_page),
        CASE(pages_without_end),
        CASE(a_page_fails),
        CASE(a_probe_takes_one_page),
        CASE(who_has_no_key),
        CASE(who_has_no_key_has_no_sandboxes),
        CASE(there_is_no_such_place),
        CASE(one_of_ours_is_ended),
        CASE(anothers_is_not_ended),
        CASE(there_is_no_such_one),
        CASE(there_can_be_no_such_one),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}

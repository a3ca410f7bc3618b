/* Which machine it is to be: made, found by its name, saved, or another's. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "backend/finder.h"
#include "base/buf.h"
#include <waldo/error.h>

#define UUID "0b5c1f6e-3a77-4f0e-9d55-8c2f6a1e7b90"

static struct {
    waldo__loop *loop;
    waldo__finder finder;
    char asked[256];
    waldo_status status;
    char message[256];
} s;

static void note(const char *what, const char *of)
{
    size_t len = strlen(s.asked);

    snprintf(s.asked + len, sizeof s.asked - len, "%s(%s) ", what, of);
}

static void on_create(void *owner)
{
    assert_ptr_equal(owner, &s);
    note("create", "");
}

static void on_look(void *owner, const char *label, const char *value)
{
    (void)owner;
    note(strcmp(label, WALDO__LABEL_NAME) == 0 ? "name" : "run", value);
}

static void on_inspect(void *owner)
{
    (void)owner;
    note("inspect", s.finder.id);
}

static void on_reach(void *owner)
{
    (void)owner;
    note("reach", s.finder.id);
}

static void on_discard(void *owner, const char *id)
{
    (void)owner;
    note("discard", id);
}

static void on_ready(void *owner)
{
    (void)owner;
    note("ready", s.finder.id);
}

static void on_failed(void *owner, waldo_status status, const waldo_error *error)
{
    (void)owner;
    note("failed", "");
    s.status = status;
    snprintf(s.message, sizeof s.message, "%s", waldo_error_message(error));
}

static int begin(void **state)
{
    (void)state;
    memset(&s, 0, sizeof s);
    return waldo__loop_new(&s.loop, NULL) != WALDO_OK;
}

static int end(void **state)
{
    (void)state;
    waldo__finder_free(&s.finder);
    waldo__loop_free(s.loop);
    return 0;
}

static waldo_status find(const waldo_backend_spec *more, const char *saved)
{
    static const waldo__finder_fns fns = { on_create,  on_look,  on_inspect, on_reach,
                                           on_discard, on_ready, on_failed };
    waldo_backend_spec spec = *more;
    waldo_status status;

    spec.size = sizeof spec;
    spec.id = "mine1";
    status =
        waldo__finder_init(&s.finder, s.loop, "cloud", &fns, &s, &spec, waldo__str(saved), NULL);
    if (status == WALDO_OK) {
        waldo__finder_begin(&s.finder);
    }
    return status;
}

/* One of a listing. */
static void see(const char *id, const char *since, const char *labels)
{
    waldo__json *doc = NULL;

    assert_int_equal(waldo__json_parse(waldo__str(labels), NULL, &doc, NULL), WALDO_OK);
    waldo__finder_see(&s.finder, waldo__str(id), waldo__str(since), waldo__json_root(doc));
    waldo__json_free(doc);
}

static void made(const char *id)
{
    waldo__take_word(s.finder.id, waldo__str(id));
    waldo__finder_created(&s.finder, WALDO_OK, NULL);
}

/* Until something is asked for. */
static void wait(void)
{
    int64_t until = waldo__deadline_ns(60000);

    s.asked[0] = '\0';
    while (s.asked[0] == '\0' && waldo__now_ns() < until) {
        waldo__loop_round(s.loop, until, 0);
    }
}

static void words(void **state)
{
    static const char *const good[] = { "a", UUID, "dbx_31a", "sb-01ARZ3NDEKTSV4RRFFQ69G5FAV" };
    static const char *const bad[] = { "",    "a b", "../a", "a/b",         "a%2f",
                                       "a?b", "a.b", "a\n",  UUID UUID UUID };
    char word[WALDO__WORD_MAX] = "stays";

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(waldo__take_word(word, waldo__str(bad[i])), 0);
        assert_string_equal(word, "stays");
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(waldo__take_word(word, waldo__str(good[i])), 1);
        assert_string_equal(word, good[i]);
    }
}

static void a_new_one(void **state)
{
    (void)state;
    find(&(waldo_backend_spec){ .lease_ms = 0 }, NULL);
    made(UUID);
    assert_string_equal(s.asked, "create() ready(" UUID ") ");
    assert_int_equal(s.finder.made, 1);
    assert_int_equal(s.finder.reached, 0);
}

/* Made a second time only after nobody has seen the first. */
static void an_unknown_outcome(void **state)
{
    (void)state;
    find(&(waldo_backend_spec){ .lease_ms = 0 }, NULL);
    waldo__finder_created(&s.finder, WALDO_EUNKNOWN_OUTCOME, NULL);
    assert_string_equal(s.asked, "create() run(mine1) ");
    see("other", "1", "{\"dev.waldo.run\":\"other\"}");
    waldo__finder_looked(&s.finder, WALDO_OK, NULL);
    waldo__finder_created(&s.finder, WALDO_EUNKNOWN_OUTCOME, NULL);
    assert_string_equal(s.asked, "create() run(mine1) create() failed() ");
    assert_int_equal(s.status, WALDO_EUNKNOWN_OUTCOME);
}

static void an_outcome_that_is_found(void **state)
{
    (void)state;
    find(&(waldo_backend_spec){ .lease_ms = 0 }, NULL);
    waldo__finder_created(&s.finder, WALDO_EUNKNOWN_OUTCOME, NULL);
    see("i1", "1", "{\"dev.waldo.run\":\"mine1\"}");
    waldo__finder_looked(&s.finder, WALDO_OK, NULL);
    waldo__finder_reached(&s.finder, WALDO_OK, NULL);
    assert_string_equal(s.asked, "create() run(mine1) reach(i1) ready(i1) ");
    assert_int_equal(s.finder.made, 1);
    assert_int_equal(s.finder.reached, 0);
}

#define LAB(run) "{\"dev.waldo.run\":\"" run "\",\"dev.waldo.name\":\"lab\"}"

/* Two made one of this name at once: the older counts, and the other is ended by who made it. */
static void two_of_one_name(void **state)
{
    (void)state;
    find(&(waldo_backend_spec){ .name = "lab" }, NULL);
    waldo__finder_looked(&s.finder, WALDO_OK, NULL);
    assert_string_equal(s.asked, "name(lab) create() ");
    made("i2");
    wait();
    see("i2", "2026-01-02", LAB("mine1"));
    see("i1", "2026-01-01", LAB("theirs"));
    see("i0", "2026-01-01", "{\"dev.waldo.run\":\"r\",\"dev.waldo.name\":\"another\"}");
    waldo__finder_looked(&s.finder, WALDO_OK, NULL);
    waldo__finder_reached(&s.finder, WALDO_OK, NULL);
    assert_string_equal(s.asked, "name(lab) discard(i2) reach(i1) ready(i1) ");
    assert_int_equal(s.finder.reached, 1);
    assert_int_equal(s.finder.made, 0);
}

/* The same where the answer to its creation got lost. */
static void one_of_two_that_is_found(void **state)
{
    (void)state;
    find(&(waldo_backend_spec){ .name = "lab" }, NULL);
    waldo__finder_looked(&s.finder, WALDO_OK, NULL);
    waldo__finder_created(&s.finder, WALDO_EUNKNOWN_OUTCOME, NULL);
    see("i2", "2", LAB("mine1"));
    waldo__finder_looked(&s.finder, WALDO_OK, NULL);
    waldo__finder_reached(&s.finder, WALDO_OK, NULL);
    assert_string_equal(s.asked, "name(lab) create() run(mine1) reach(i2) ");
    wait();
    see("i2", "2", LAB("mine1"));
    see("i1", "1", LAB("theirs"));
    waldo__finder_looked(&s.finder, WALDO_OK, NULL);
    waldo__finder_reached(&s.finder, WALDO_OK, NULL);
    assert_string_equal(s.asked, "name(lab) discard(i2) reach(i1) ready(i1) ");
    assert_int_equal(s.finder.made, 0);
    assert_int_equal(s.finder.reached, 1);
}

static void nobody_of_this_name(void **state)
{
    (void)state;
    find(&(waldo_backend_spec){ .name = "lab", .flags = WALDO_BACKEND_FIND }, NULL);
    waldo__finder_looked(&s.finder, WALDO_OK, NULL);
    assert_string_equal(s.asked, "name(lab) failed() ");
    assert_int_equal(s.status, WALDO_ENOTFOUND);
}

static void a_name_that_is_anothers(void **state)
{
    (void)state;
    find(&(waldo_backend_spec){ .name = "lab" }, NULL);
    see("i1", "1", "{\"dev.waldo.name\":\"lab\"}");
    waldo__finder_looked(&s.finder, WALDO_OK, NULL);
    assert_string_equal(s.asked, "name(lab) failed() ");
    assert_int_equal(s.status, WALDO_EACCESS);
}

static void inspected(const char *labels)
{
    waldo__json *doc = NULL;

    assert_int_equal(waldo__json_parse(waldo__str(labels), NULL, &doc, NULL), WALDO_OK);
    waldo__finder_inspected(&s.finder, WALDO_OK, NULL, waldo__json_root(doc));
    waldo__json_free(doc);
}

static void a_saved_one(void **state)
{
    waldo__buf saved = WALDO__BUF_INIT(4096);

    (void)state;
    find(&(waldo_backend_spec){ .lease_ms = 0 }, NULL);
    made(UUID);
    waldo__take_word(s.finder.user, WALDO__S("some-body"));
    waldo__finder_put_saved(&s.finder, &saved);
    waldo__finder_free(&s.finder);
    s.asked[0] = '\0';
    assert_int_equal(find(&(waldo_backend_spec){ .lease_ms = 0 }, waldo__buf_str(&saved).ptr),
                     WALDO_OK);
    assert_string_equal(s.finder.user, "some-body");
    inspected("{\"dev.waldo.run\":\"mine1\",\"dev.waldo.lease\":\"60000\"}");
    waldo__finder_reached(&s.finder, WALDO_OK, NULL);
    assert_string_equal(s.asked, "inspect(" UUID ") reach(" UUID ") ready(" UUID ") ");
    assert_int_equal(s.finder.lease_ms, 60000);
    waldo__buf_free(&saved);
}

static void a_saved_one_that_is_another_now(void **state)
{
    (void)state;
    find(&(waldo_backend_spec){ .lease_ms = 0 }, "{\"machine\":\"i1\",\"run\":\"r1\"}");
    inspected("{\"dev.waldo.run\":\"r2\"}");
    assert_string_equal(s.asked, "inspect(i1) failed() ");
    assert_int_equal(s.status, WALDO_EACCESS);
}

static void what_is_no_saved_state(void **state)
{
    static const char *const texts[] = { "{}", "{\"machine\":\"../x\",\"run\":\"r\"}",
                                         "{\"machine\":\"i1\",\"run\":\"r\",\"foreign\":true}" };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(find(&(waldo_backend_spec){ .lease_ms = 0 }, texts[i]), WALDO_EINVAL);
        waldo__finder_free(&s.finder);
    }
    assert_string_equal(s.asked, "");
}

static void one_that_is_attached(void **state)
{
    (void)state;
    find(&(waldo_backend_spec){ .attach = UUID }, NULL);
    waldo__finder_reached(&s.finder, WALDO_ENOTFOUND, NULL);
    assert_string_equal(s.asked, "reach(" UUID ") failed() ");
    assert_int_equal(s.finder.foreign, 1);
    assert_int_equal(s.finder.made, 0);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(words),
        CASE(a_new_one),
        CASE(an_unknown_outcome),
        CASE(an_outcome_that_is_found),
        CASE(two_of_one_name),
        CASE(one_of_two_that_is_found),
        CASE(nobody_of_this_name),
        CASE(a_name_that_is_anothers),
        CASE(a_saved_one),
        CASE(a_saved_one_that_is_another_now),
        CASE(what_is_no_saved_state),
        CASE(one_that_is_attached),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}

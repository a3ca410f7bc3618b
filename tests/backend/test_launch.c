/* How the hand comes into a machine: all parts first, then its process, then files for streams. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "backend/launch.h"
#include "base/buf.h"
#include <waldo/error.h>

static struct {
    waldo__loop *loop;
    waldo__launch launch;
    char asked[512];
    int done;
    int again;
    waldo_status status;
    char message[64];
} s;

static void note(const char *text)
{
    size_t len = strlen(s.asked);

    snprintf(s.asked + len, sizeof s.asked - len, "%s ", text);
}

static void on_bring(void *owner, const char *path, int for_root)
{
    assert_ptr_equal(owner, &s);
    note(for_root ? "root" : "user");
    note(path);
}

static void on_start(void *owner, const char *script, const char *const *args)
{
    assert_ptr_equal(owner, &s);
    assert_non_null(strstr(script, "durable \"$1\" \"$2\""));
    note("start");
    for (; *args != NULL; args++) {
        note(*args);
    }
}

static void keep(waldo_status status, const waldo_error *error)
{
    s.status = status;
    snprintf(s.message, sizeof s.message, "%s", waldo_error_message(error));
}

static void on_done(void *owner, waldo_status status, const waldo_error *error)
{
    assert_ptr_equal(owner, &s);
    s.done++;
    keep(status, error);
}

static void on_again(void *owner, waldo_status status, const waldo_error *error)
{
    assert_ptr_equal(owner, &s);
    s.again++;
    keep(status, error);
}

static int begin(void **state)
{
    static const waldo__launch_fns fns = { on_bring, on_start, on_done, on_again };

    (void)state;
    memset(&s, 0, sizeof s);
    assert_int_equal(waldo__loop_new(&s.loop, NULL), WALDO_OK);
    waldo__launch_init(&s.launch, s.loop, &fns, &s);
    waldo__launch_begin(&s.launch, "mine", "run", 5000, 1);
    assert_string_equal(s.asked, "user /tmp/.waldo-hand-mine-u root /tmp/.waldo-hand-mine ");
    s.asked[0] = '\0';
    return 0;
}

static int end(void **state)
{
    (void)state;
    waldo__launch_free(&s.launch);
    waldo__loop_free(s.loop);
    return 0;
}

static void parts(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        waldo__launch_part(&s.launch, WALDO_OK, NULL);
    }
}

static void turn(void)
{
    waldo__loop_round(s.loop, 0, 0);
}

static void it_starts_when_all_is_there(void **state)
{
    (void)state;
    parts(2);
    assert_string_equal(s.asked, "");
    parts(1);
    assert_string_equal(s.asked, "start /tmp/.waldo-hand-mine-u waldo-run 5000 ");
    waldo__launch_event(&s.launch, WALDO__PROCESS_DIAGNOSTIC);
    turn();
    assert_int_equal(s.done, 0);
    waldo__launch_event(&s.launch, WALDO__PROCESS_STARTED);
    assert_int_equal(s.done, 0); /* its stream may be let go of in done */
    waldo__launch_over(&s.launch, WALDO_ETRUNCATED, NULL);
    turn();
    turn();
    assert_int_equal(s.done, 1);
    assert_int_equal(s.status, WALDO_OK);
}

static void the_first_failure_counts(void **state)
{
    static const char *const texts[] = { "first", "second" };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        waldo_error *why = NULL;

        waldo_error_set(&why, i == 0 ? WALDO_ENOSPACE : WALDO_ELOST, WALDO_CLASS_PROVIDER, "%s",
                        texts[i]);
        waldo__launch_part(&s.launch, waldo_error_status(why), why);
        waldo_error_free(why);
        turn();
        assert_int_equal(s.done, 0); /* the others use what the machine has for them */
    }
    parts(1);
    turn();
    assert_string_equal(s.asked, "");
    assert_int_equal(s.done, 1);
    assert_int_equal(s.status, WALDO_ENOSPACE);
    assert_string_equal(s.message, "first");
}

static void its_process_does_not_start(void **state)
{
    waldo_error *why = NULL;

    (void)state;
    parts(3);
    waldo_error_set(&why, WALDO_ENOTFOUND, WALDO_CLASS_PROVIDER, "no shell");
    waldo__launch_over(&s.launch, WALDO_ENOTFOUND, why);
    waldo_error_free(why);
    turn();
    assert_int_equal(s.done, 1);
    assert_int_equal(s.status, WALDO_ENOTFOUND);
    assert_string_equal(s.message, "no shell");
}

/* The file that came first is for the first stream; each later one has its own. */
static void a_file_for_each_stream(void **state)
{
    char before[sizeof s.launch.path];

    (void)state;
    parts(3);
    waldo__launch_event(&s.launch, WALDO__PROCESS_STARTED);
    turn();
    s.asked[0] = '\0';
    waldo__launch_again(&s.launch);
    assert_int_equal(s.again, 0);
    turn();
    assert_int_equal(s.again, 1);
    assert_string_equal(s.asked, "");
    assert_string_equal(s.launch.path, "/tmp/.waldo-hand-mine");
    for (int i = 2; i < 5; i++) {
        memcpy(before, s.launch.path, sizeof before);
        waldo__launch_again(&s.launch);
        assert_int_equal(strncmp(s.asked, "root /tmp/.waldo-hand-", 22), 0);
        assert_string_not_equal(s.launch.path, before);
        waldo__launch_part(&s.launch, i == 3 ? WALDO_ELOST : WALDO_OK, NULL);
        assert_int_equal(s.again, i);
        assert_int_equal(s.status, i == 3 ? WALDO_ELOST : WALDO_OK);
        s.asked[0] = '\0';
    }
    assert_int_equal(s.done, 1);
}

/* A provider that is away for a while is not the end; one that stays away is. */
static void a_file_that_is_brought_once_more(void **state)
{
    int64_t until = waldo__deadline_ns(60000);
    char asked[sizeof s.asked];

    (void)state;
    parts(3);
    waldo__launch_event(&s.launch, WALDO__PROCESS_STARTED);
    turn();
    waldo__launch_again(&s.launch);
    turn();
    s.asked[0] = '\0';
    waldo__launch_again(&s.launch);
    memcpy(asked, s.asked, sizeof asked);
    for (int i = 0; i < 2; i++) {
        s.asked[0] = '\0';
        waldo__launch_part(&s.launch, i == 0 ? WALDO_EUNAVAILABLE : WALDO_EBUSY, NULL);
        assert_int_equal(s.again, 1);
        while (s.asked[0] == '\0' && waldo__now_ns() < until) {
            waldo__loop_round(s.loop, until, 0);
        }
        assert_string_equal(s.asked, asked);
    }
    waldo__launch_part(&s.launch, WALDO_OK, NULL);
    assert_int_equal(s.again, 2);
    waldo__launch_again(&s.launch);
    s.launch.tries = 10;
    waldo__launch_part(&s.launch, WALDO_EUNAVAILABLE, NULL);
    assert_int_equal(s.again, 3);
    assert_int_equal(s.status, WALDO_EUNAVAILABLE);
}

static void nothing_is_called_any_more(void **state)
{
    waldo_error *why = NULL;

    (void)state;
    parts(3);
    waldo_error_set(&why, WALDO_ELOST, WALDO_CLASS_PROVIDER, "gone");
    waldo__launch_over(&s.launch, WALDO_ELOST, why);
    waldo_error_free(why);
    waldo__launch_free(&s.launch);
    turn();
    assert_int_equal(s.done, 0);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(it_starts_when_all_is_there),      CASE(the_first_failure_counts),
        CASE(its_process_does_not_start),       CASE(a_file_for_each_stream),
        CASE(a_file_that_is_brought_once_more), CASE(nothing_is_called_any_more),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}

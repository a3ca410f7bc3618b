/* Commands in the background: started, left, read on by offset, written to, ended, kept. */
#include "contract.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox/background.h"

#define CASE(function) cmocka_unit_test_setup_teardown(function, contract_setup, contract_teardown)
#define LONG_MS        60000

/* What a read told. */
typedef struct told {
    int done;
    waldo_status status;
    char message[512];
    int over;
    waldo_exec_end end;
    int code;
    char text[8192];
    uint64_t next, omitted, total;
    size_t gap_at;
    char capture[128];
} told;

static void tell(void *userdata, waldo_status status, const waldo_background_news *news,
                 const waldo_error *error)
{
    told *t = userdata;

    t->done++;
    t->status = status;
    snprintf(t->message, sizeof t->message, "%s", waldo_error_message(error));
    if (status != WALDO_OK) {
        return;
    }
    snprintf(t->text, sizeof t->text, "%.*s", (int)news->output.bytes.len, news->output.bytes.ptr);
    t->next = news->next;
    t->omitted = news->output.omitted;
    t->gap_at = news->output.gap_at;
    t->total = news->output.total;
    t->over = news->result != NULL;
    if (t->over) {
        t->end = news->result->end;
        t->code = news->result->exit_code;
        snprintf(t->capture, sizeof t->capture, "%s",
                 news->result->capture_path != NULL ? news->result->capture_path : "");
    }
}

static int64_t start(contract *c, waldo_exec_options options)
{
    waldo_error *error = NULL;
    int64_t number = 0;

    if (waldo_background_start(c->sandbox, &options, &number, &error) != WALDO_OK) {
        fail_msg("%s", waldo_error_message(error));
    }
    assert_true(number > 0);
    return number;
}

static void drive_told(contract *c, told *t)
{
    while (!t->done) {
        assert_int_equal(waldo_runtime_step(c->rt, LONG_MS), WALDO_OK);
    }
}

/* Reads from an offset; fails unless that is possible. */
static told look(contract *c, int64_t number, uint64_t offset, size_t max, int64_t wait_ms)
{
    told t = { 0 };

    assert_int_equal(
        waldo_background_read(c->sandbox, number, offset, max, wait_ms, tell, &t, NULL, NULL),
        WALDO_OK);
    drive_told(c, &t);
    assert_int_equal(t.done, 1);
    return t;
}

/* Reads until a text is there; the reads joined. */
static told look_for(contract *c, int64_t number, uint64_t offset, const char *text)
{
    told all = { 0 };

    while (strstr(all.text, text) == NULL) {
        told t = look(c, number, offset, 4096, 20);

        assert_int_equal(t.status, WALDO_OK);
        assert_int_equal(t.over, 0);
        strncat(all.text, t.text, sizeof all.text - strlen(all.text) - 1);
        all.next = offset = t.next;
    }
    return all;
}

static void quick_ones_end_at_once(void **state)
{
    contract *c = *state;
    told t;

    NEED(c, WALDO_BACKEND_CHANNEL);
    t = look(c, start(c, WALDO_EXEC(.cmd = "echo out; echo err >&2; exit 3")), 0, 1000, LONG_MS);
    assert_int_equal(t.status, WALDO_OK);
    assert_int_equal(t.over, 1);
    assert_int_equal(t.end, WALDO_EXEC_EXITED);
    assert_int_equal(t.code, 3);
    assert_string_equal(t.text, "out\nerr\n");
    assert_int_equal(t.next, 8);
    t = look(c, start(c, WALDO_EXEC(.cmd = "exit 4")), 0, 1000, LONG_MS);
    assert_int_equal(t.over, 1);
    assert_int_equal(t.code, 4);
    assert_string_equal(t.text, "");
}

static void left_and_read_on(void **state)
{
    contract *c = *state;
    int64_t number, again;
    told t;

    NEED(c, WALDO_BACKEND_CHANNEL | WALDO_BACKEND_STDIN);
    number = start(c, WALDO_EXEC(.cmd = "echo one; read x; echo $x; read x; exit 5",
                                 .flags = WALDO_EXEC_KEEP_STDIN));
    t = look_for(c, number, 0, "one\n");
    assert_string_equal(t.text, "one\n");
    /* Others run meanwhile. */
    again = start(c, WALDO_EXEC(.cmd = "echo other"));
    assert_string_equal(look(c, again, 0, 100, LONG_MS).text, "other\n");
    assert_int_equal(waldo_background_write(c->sandbox, number, waldo__str("two\n"), 0), WALDO_OK);
    t = look_for(c, number, t.next, "two\n");
    assert_string_equal(t.text, "two\n");
    assert_string_equal(look(c, number, 0, 100, 0).text, "one\ntwo\n");
    assert_int_equal(waldo_background_forget(c->sandbox, number), WALDO_EBUSY);
    assert_int_equal(waldo_background_write(c->sandbox, number, waldo__str("x\n"), 1), WALDO_OK);
    t = look(c, number, t.next, 100, LONG_MS);
    assert_int_equal(t.over, 1);
    assert_int_equal(t.code, 5);
    assert_string_equal(t.text, "");
    assert_int_equal(waldo_background_write(c->sandbox, number, waldo__str("x"), 0), WALDO_ECLOSED);
    /* Over, and still there; until it is forgotten. */
    assert_string_equal(look(c, number, 4, 100, LONG_MS).text, "two\n");
    assert_int_equal(waldo_background_forget(c->sandbox, number), WALDO_OK);
    assert_int_equal(waldo_background_forget(c->sandbox, number), WALDO_ENOTFOUND);
    assert_int_equal(waldo_background_read(c->sandbox, number, 0, 9, 0, tell, &t, NULL, NULL),
                     WALDO_ENOTFOUND);
}

static void head_and_tail(void **state)
{
    contract *c = *state;
    waldo_exec_result *result;
    int64_t number;
    size_t shown;
    told t;

    NEED(c, WALDO_BACKEND_CHANNEL);
    number = start(c, WALDO_EXEC(.cmd = "seq 1 100000", .max_capture = 1000000));
    t = look(c, number, 0, 20, LONG_MS);
    shown = strlen(t.text);
    assert_int_equal(t.over, 1);
    assert_int_equal(t.total, 588895);
    /* What was printed first may not be kept any more when the read comes. */
    assert_true(shown == 20 || shown == 10);
    assert_int_equal(t.omitted, 588895 - shown);
    assert_int_equal(t.gap_at, shown - 10);
    assert_string_equal(t.text + shown - 10, "99\n100000\n");
    assert_int_equal(t.next, 588895);
    result = run(c, &WALDO_EXEC(.argv = WALDO_STRINGS("wc", "-c", t.capture)));
    assert_int_equal(result->exit_code, 0);
    assert_memory_equal(result->out.bytes.ptr, "588895 ", 7);
    waldo_exec_result_free(result);
    /* As much as fits is whole. */
    t = look(c, start(c, WALDO_EXEC(.cmd = "seq 1 1000")), 0, 3893, LONG_MS);
    assert_int_equal(t.omitted, 0);
    assert_int_equal(t.total, 3893);
}

static void flood_is_bounded(void **state)
{
    contract *c = *state;
    int64_t number;
    told t;

    NEED(c, WALDO_BACKEND_CHANNEL);
    number = start(c, WALDO_EXEC(.cmd = "yes"));
    do { /* until it has begun */
        t = look(c, number, 0, 1000, 200);
        assert_int_equal(t.over, 0);
    } while (t.next < 1000);
    assert_true(strlen(t.text) == 1000 || strlen(t.text) == 500);
    assert_true(t.next >= 1000);
    waldo_background_cancel(c->sandbox, number);
    t = look(c, number, t.next, 1000, LONG_MS);
    assert_int_equal(t.over, 1);
    assert_int_equal(t.end, WALDO_EXEC_CANCELLED);
}

static void start_errors_are_told(void **state)
{
    contract *c = *state;
    int64_t number;
    told t;

    NEED(c, WALDO_BACKEND_CHANNEL);
    number = start(c, WALDO_EXEC(.argv = WALDO_STRINGS("/no/such/program")));
    for (int i = 0; i < 2; i++) {
        t = look(c, number, 0, 100, LONG_MS);
        assert_int_equal(t.status, WALDO_ESTART);
        assert_non_null(strstr(t.message, "/no/such/program"));
    }
    assert_int_equal(waldo_background_forget(c->sandbox, number), WALDO_OK);
}

static void terminal_in_the_background(void **state)
{
    contract *c = *state;
    int64_t number;
    told t;

    NEED(c, WALDO_BACKEND_CHANNEL | WALDO_BACKEND_PTY);
    number = start(c, WALDO_EXEC(.cmd = "trap 'stty size' WINCH; trap 'echo bye; exit 6' INT; "
                                        "stty -echo; echo ready; while :; do sleep 0.02; done",
                                 .flags = WALDO_EXEC_TTY | WALDO_EXEC_KEEP_STDIN));
    t = look_for(c, number, 0, "ready\r\n");
    assert_int_equal(waldo_background_resize(c->sandbox, number, 7, 77), WALDO_OK);
    t = look_for(c, number, t.next, "7 77\r\n");
    assert_int_equal(waldo_background_write(c->sandbox, number, waldo__str("\003"), 0), WALDO_OK);
    t = look(c, number, t.next, 1000, LONG_MS);
    assert_string_equal(t.text, "bye\r\n");
    assert_int_equal(t.code, 6);
}

static void one_reader_at_a_time(void **state)
{
    contract *c = *state;
    waldo_background_reading *read = NULL;
    told first = { 0 };
    int64_t number;

    NEED(c, WALDO_BACKEND_CHANNEL | WALDO_BACKEND_SIGNAL);
    number = start(c, WALDO_EXEC(.cmd = "sleep 1000"));
    assert_int_equal(
        waldo_background_read(c->sandbox, number, 0, 100, LONG_MS, tell, &first, &read, NULL),
        WALDO_OK);
    assert_int_equal(waldo_background_read(c->sandbox, number, 0, 100, 0, tell, &first, NULL, NULL),
                     WALDO_EBUSY);
    waldo_background_hurry(read);
    drive_told(c, &first);
    assert_int_equal(first.over, 0);
    /* A signal is the end of this one. */
    assert_int_equal(waldo_background_signal(c->sandbox, number, 15), WALDO_OK);
    assert_int_equal(look(c, number, 0, 100, LONG_MS).end, WALDO_EXEC_SIGNALED);
}

static void only_so_many(void **state)
{
    contract *c = *state;
    int64_t first, last = 0, number = 0;
    told t;

    NEED(c, WALDO_BACKEND_CHANNEL);
    first = start(c, WALDO_EXEC(.cmd = "sleep 1000"));
    for (int i = 0; i < WALDO_BACKGROUND_MAX + 1; i++) {
        last = start(c, WALDO_EXEC(.cmd = "echo x"));
        assert_string_equal(look(c, last, 0, 10, LONG_MS).text, "x\n");
    }
    /* The first one that ended is gone, the one that runs is not. */
    assert_int_equal(waldo_background_forget(c->sandbox, first + 1), WALDO_ENOTFOUND);
    assert_int_equal(look(c, first, 0, 10, 0).over, 0);
    assert_string_equal(look(c, first + 3, 0, 10, LONG_MS).text, "x\n");
    for (int i = 1; i < WALDO_BACKGROUND_MAX; i++) {
        last = start(c, WALDO_EXEC(.cmd = "sleep 1000"));
    }
    assert_int_equal(waldo_background_start(c->sandbox, &WALDO_EXEC(.cmd = "true"), &number, NULL),
                     WALDO_EBUSY);
    waldo_background_cancel(c->sandbox, last);
    t = look(c, last, 0, 10, LONG_MS);
    assert_int_equal(t.end, WALDO_EXEC_CANCELLED);
    last = start(c, WALDO_EXEC(.cmd = "exit 2"));
    assert_int_equal(look(c, last, 0, 10, LONG_MS).code, 2);
}

/* From /proc/PID/status: the parent, and the number in the innermost namespace; 0: it is gone. */
static int process_info(int pid, int *ret_parent, int *ret_inside)
{
    char line[256];
    FILE *file;

    *ret_parent = *ret_inside = 0;
    snprintf(line, sizeof line, "/proc/%d/status", pid);
    file = fopen(line, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *last = strrchr(line, '\t');

        if (strncmp(line, "PPid:", 5) == 0) {
            *ret_parent = (int)strtol(line + 5, NULL, 10);
        } else if (strncmp(line, "NSpid:", 6) == 0 && last != line + 6) {
            *ret_inside = (int)strtol(last, NULL, 10);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return *ret_parent;
}

/* The hand is process 1 of a sandbox, which nothing inside can stop: it is done from outside. */
static int stop_the_hand(void)
{
    DIR *all = opendir("/proc");
    const struct dirent *entry;
    int stopped = 0;

    while (all != NULL && (entry = readdir(all)) != NULL) {
        int pid = (int)strtol(entry->d_name, NULL, 10);
        int inside = 0, above = 0, unused;

        if (pid > 0 && process_info(pid, &above, &inside) != 0 && inside == 1) {
            while (above > 1 && above != getpid() && process_info(above, &above, &unused) != 0) {
            }
            stopped += above == getpid() && kill(pid, SIGSTOP) == 0;
        }
    }
    if (all != NULL) {
        closedir(all);
    }
    return stopped;
}

/* The hand itself is stopped: the read ends all the same, and says what happened. */
static void hand_that_does_not_answer(void **state)
{
    contract *c = *state;
    int64_t number;
    told t;

    NEED(c, WALDO_BACKEND_CHANNEL | WALDO_BACKEND_TREE_KILL);
    if (strcmp(c->backend->name, "docker") == 0 || strcmp(c->backend->name, "e2b") == 0) {
        skip(); /* its processes are the daemon's */
    }
    number = start(c, WALDO_EXEC(.cmd = "echo begun; sleep 1000"));
    t = look_for(c, number, 0, "begun\n");
    assert_int_equal(stop_the_hand(), 1);
    for (int i = 0; i < 100; i++) {
        t = look(c, number, t.next, 100, 100);
        if (t.status != WALDO_OK || t.over) {
            break;
        }
    }
    assert_true(t.status == WALDO_ELOST || (t.over && t.end == WALDO_EXEC_LOST));
}

static void closing_ends_them(void **state)
{
    contract *c = *state;
    waldo_sandbox *other;
    int64_t number = 0;
    told t = { 0 };

    NEED(c, WALDO_BACKEND_CHANNEL);
    other = other_sandbox(c, "", NULL, WALDO_WORKSPACE_COPY);
    assert_int_equal(
        waldo_background_start(other, &WALDO_EXEC(.cmd = "echo a; sleep 1000"), &number, NULL),
        WALDO_OK);
    assert_int_equal(waldo_background_read(other, number, 0, 100, LONG_MS, tell, &t, NULL, NULL),
                     WALDO_OK);
    while (waldo_sandbox_isolation(other) == WALDO_ISOLATION_ANY) {
        assert_int_equal(waldo_runtime_step(c->rt, LONG_MS), WALDO_OK);
    }
    close_sandbox(c, other);
    assert_int_equal(t.done, 1);
    assert_int_equal(t.over == 1 ? t.end : WALDO_EXEC_CANCELLED, WALDO_EXEC_CANCELLED);
    assert_true(t.over == 1 || t.status == WALDO_ECANCELED);
}

static void refusals(void **state)
{
    contract *c = *state;
    int64_t number = 0;
    told t;

    assert_int_equal(waldo_background_start(c->sandbox,
                                            &WALDO_EXEC(.cmd = "true", .max_output = 2000000),
                                            &number, NULL),
                     WALDO_EINVAL);
    assert_int_equal(waldo_background_start(c->sandbox, &WALDO_EXEC(.flags = 0), &number, NULL),
                     WALDO_EINVAL);
    assert_int_equal(waldo_background_write(c->sandbox, 1, waldo__str("x"), 0), WALDO_ENOTFOUND);
    if (!offers(c, WALDO_BACKEND_CHANNEL)) {
        t = look(c, start(c, WALDO_EXEC(.cmd = "true")), 0, 10, LONG_MS);
        assert_int_equal(t.status, WALDO_ENOTSUP);
    }
}

const struct CMUnitTest background_cases[] = {
    CASE(quick_ones_end_at_once),
    CASE(left_and_read_on),
    CASE(head_and_tail),
    CASE(flood_is_bounded),
    CASE(start_errors_are_told),
    CASE(terminal_in_the_background),
    CASE(one_reader_at_a_time),
    CASE(only_so_many),
    CASE(hand_that_does_not_answer),
    CASE(closing_ends_them),
    CASE(refusals),
};
const size_t background_case_count = sizeof background_cases / sizeof *background_cases;

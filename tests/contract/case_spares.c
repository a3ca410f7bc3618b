/* Machines opened ahead: who takes one, who does not, and that none is used twice. */
#include "contract.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/live.h"

#define CASE(function) cmocka_unit_test_setup_teardown(function, contract_setup, contract_teardown)

enum { PATIENCE_S = 60, ANSWER_S = 2 };

/* The spares that could be taken now. */
static int ready(const contract *c, char *ret_id)
{
    const waldo__sandbox_node *head = waldo__runtime_sandboxes(c->rt);
    int count = 0;

    for (waldo__sandbox_node *node = head->next; node != head; node = node->next) {
        const waldo_sandbox *other = waldo__sandbox_of_node(node);

        if (other->is_spare && other->state == WALDO__LIVE_OPEN) {
            count++;
            if (ret_id != NULL) {
                memcpy(ret_id, other->id, sizeof other->id);
            }
        }
    }
    return count;
}

static void wait_for_spares(contract *c, int count, char *ret_id)
{
    int64_t until = waldo__deadline_ns(PATIENCE_S * 1000);

    while (ready(c, ret_id) != count) {
        if (waldo__now_ns() > until) {
            fail_msg("%d spares, and not %d", ready(c, NULL), count);
        }
        waldo_runtime_step(c->rt, 100);
    }
}

static void open_it(contract *c, waldo_sandbox *sandbox)
{
    outcome out;

    outcome_init(&out);
    waldo_sandbox_open(sandbox, took_done, &out);
    drive(c, &out);
    if (out.status != WALDO_OK) {
        fail_msg("%s", out.message);
    }
    outcome_free(&out);
}

/*
 * It is the spare with that id; unless that one's hand was asked and did not answer for so long
 * that it was not taken.
 */
static void open_with_spare(contract *c, waldo_sandbox *sandbox, const char *id)
{
    int64_t begun = waldo__now_ns();

    open_it(c, sandbox);
    if (waldo__now_ns() - begun < ANSWER_S * WALDO__NS_PER_S) {
        assert_string_equal(sandbox->id, id);
    }
}

/* Use it as any other: its workspace is there, and a file that is written. */
static void use_it(contract *c, waldo_sandbox *sandbox)
{
    waldo_sandbox *before = c->sandbox;
    outcome out;

    c->sandbox = sandbox;
    read_file(c, "given", 0, 100, &out);
    assert_int_equal(out.status, WALDO_OK);
    assert_int_equal(out.bytes.len, 5);
    outcome_free(&out);
    write_file(c, "mine", WALDO__S("text"), 0, &out);
    assert_int_equal(out.status, WALDO_OK);
    outcome_free(&out);
    outcome_init(&out);
    waldo_sandbox_changes(sandbox, took_patch, &out);
    drive(c, &out);
    assert_int_equal(out.status, WALDO_OK);
    assert_non_null(strstr(waldo__buf_str(&out.bytes).ptr, "+text"));
    outcome_free(&out);
    c->sandbox = before;
}

static void the_next_sandbox_takes_one(void **state)
{
    contract *c = *state;
    waldo_sandbox *first, *second, *third;
    char id[17], next[17];

    host_write(c, "given", "hello", 5, 0644);
    first = other_sandbox(c, "spares=1", c->folder, WALDO_WORKSPACE_COPY);
    assert_int_equal(ready(c, NULL), 0);
    use_it(c, first);
    wait_for_spares(c, 1, id);
    assert_string_not_equal(id, first->id);

    second = other_sandbox(c, "spares=1", c->folder, WALDO_WORKSPACE_COPY);
    open_with_spare(c, second, id);
    assert_int_equal(waldo_sandbox_isolation(second), waldo_sandbox_isolation(first));
    use_it(c, second);

    wait_for_spares(c, 1, next);
    assert_string_not_equal(next, id);
    close_sandbox(c, second);
    third = other_sandbox(c, "spares=1,timeout=7", c->folder, WALDO_WORKSPACE_COPY);
    open_with_spare(c, third, next);
    use_it(c, third);
    close_sandbox(c, third);
    close_sandbox(c, first);
}

static void other_recipes_take_none(void **state)
{
    contract *c = *state;
    const char *const others[] = { "", "spares=1,env=A=2", "spares=1,env=A=1,env=B=1",
                                   offers(c, WALDO_BACKEND_NET_ALL) ? "spares=1,net=all,env=A=1"
                                                                    : "spares=1,pids=77,env=A=1",
                                   "spares=1" };
    waldo_sandbox *first = other_sandbox(c, "spares=1,env=A=1", NULL, WALDO_WORKSPACE_COPY);
    waldo_sandbox *same;
    char id[17];

    open_it(c, first);
    wait_for_spares(c, 1, id);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        waldo_sandbox *other = other_sandbox(c, others[i], NULL, WALDO_WORKSPACE_COPY);

        open_it(c, other);
        assert_string_not_equal(other->id, id);
        close_sandbox(c, other);
    }
    same = other_sandbox(c, "env=A=1,spares=2", NULL, WALDO_WORKSPACE_COPY);
    open_with_spare(c, same, id);
    close_sandbox(c, same);
    close_sandbox(c, first);
}

static void two_at_once_take_different_ones(void **state)
{
    contract *c = *state;
    waldo_sandbox *boxes[4];
    outcome outs[4];

    boxes[0] = other_sandbox(c, "spares=2", NULL, WALDO_WORKSPACE_COPY);
    open_it(c, boxes[0]);
    wait_for_spares(c, 2, NULL);
    for (int i = 1; i < 4; i++) { /* one more than there are */
        outcome_init(&outs[i]);
        boxes[i] = other_sandbox(c, "spares=2", NULL, WALDO_WORKSPACE_COPY);
        waldo_sandbox_open(boxes[i], took_done, &outs[i]);
    }
    for (int i = 1; i < 4; i++) {
        drive(c, &outs[i]);
        assert_int_equal(outs[i].status, WALDO_OK);
        outcome_free(&outs[i]);
    }
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(boxes[i]->id, boxes[j]->id);
        }
    }
    for (int i = 0; i < 4; i++) {
        close_sandbox(c, boxes[i]);
    }
}

/* Whatever a spare is at, the runtime ends with it: the teardown looks for what is left. */
static void closing_ends_them_at_any_moment(void **state)
{
    contract *c = *state;

    for (int steps = 0; steps < 40; steps = steps * 2 + 1) {
        waldo_sandbox *sandbox = other_sandbox(c, "spares=2", NULL, WALDO_WORKSPACE_COPY);

        open_it(c, sandbox);
        for (int i = 0; i < steps; i++) {
            waldo_runtime_step(c->rt, 10);
        }
        waldo_sandbox_unref(sandbox);
        if (steps % 2 == 0) {
            waldo_sandbox_unref(c->sandbox);
            c->sandbox = NULL;
            waldo_runtime_finish(c->rt);
            c->rt = waldo_runtime_new(&WALDO_RUNTIME(.keys = WALDO_KEYS_FROM_ENV));
        }
    }
}

/* One that is closed while it takes a spare: the machine goes with it. */
static void closing_while_one_is_taken(void **state)
{
    contract *c = *state;
    waldo_sandbox *first = other_sandbox(c, "spares=1", NULL, WALDO_WORKSPACE_COPY);
    waldo_sandbox *second, *third;
    outcome out;

    open_it(c, first);
    wait_for_spares(c, 1, NULL);
    second = other_sandbox(c, "spares=1", NULL, WALDO_WORKSPACE_COPY);
    outcome_init(&out);
    waldo_sandbox_open(second, took_done, &out);
    assert_int_equal(second->taking, 1);
    close_sandbox(c, second);
    assert_int_equal(out.count, 1);
    assert_int_equal(out.status, WALDO_ECANCELED);
    outcome_free(&out);
    third = other_sandbox(c, "spares=1", NULL, WALDO_WORKSPACE_COPY);
    open_it(c, third);
    close_sandbox(c, third);
    close_sandbox(c, first);
}

static void a_forked_child_leaves_them_alone(void **state)
{
    contract *c = *state;
    waldo_sandbox *first = other_sandbox(c, "spares=1", NULL, WALDO_WORKSPACE_COPY);
    waldo_sandbox *second;
    char id[17];
    int status = -1;
    pid_t child;

    open_it(c, first);
    wait_for_spares(c, 1, id);
    child = fork();
    if (child == 0) {
        waldo_sandbox_unref(first);
        waldo_runtime_free(c->rt);
        _exit(7);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 7);
    second = other_sandbox(c, "spares=1", NULL, WALDO_WORKSPACE_COPY);
    open_with_spare(c, second, id);
    waldo_sandbox_unref(c->sandbox);
    c->sandbox = second; /* the teardown lets it go */
    assert_int_equal(run_status(c, &WALDO_EXEC(.cmd = "true"), id, sizeof id), WALDO_OK);
    close_sandbox(c, first);
}

const struct CMUnitTest spare_cases[] = {
    CASE(the_next_sandbox_takes_one),      CASE(other_recipes_take_none),
    CASE(two_at_once_take_different_ones), CASE(closing_ends_them_at_any_moment),
    CASE(closing_while_one_is_taken),      CASE(a_forked_child_leaves_them_alone),
};
const size_t spare_case_count = sizeof spare_cases / sizeof *spare_cases;

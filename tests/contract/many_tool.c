/*
 * usage: many-tool SANDBOX COUNT
 * Runs COUNT commands of many kinds in one sandbox, some at once. Prints "warm" after a tenth of
 * them, and "done" at the end; waits for a line of input after each, so that somebody can look from
 * outside. Fails when a command does not end as its kind has to, or leaves a process inside.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox/sandbox.h"

enum { WIDTH = 8, SETTLE_STEPS = 2400, SETTLE_MS = 25 };

typedef struct kind {
    int every; /* numbers that leave rest when divided by it */
    int rest;
    const char *cmd;
    const char *const *argv;
    const char *input;
    int64_t timeout_ms;
    int cancel;
    waldo_status status;
    waldo_exec_end end;
    int code;
    uint64_t bytes; /* of output */
} kind;

/* The first that fits. */
static const kind kinds[] = {
    { 200, 7, .argv = WALDO_STRINGS("sleep", "100"), .timeout_ms = 40,
      .end = WALDO_EXEC_TIMED_OUT },
    { 200, 107, "trap '' TERM; sleep 100 & sleep 100", .timeout_ms = 40,
      .end = WALDO_EXEC_TIMED_OUT },
    { 50, 3, "sleep 0.2 & exit 3", .end = WALDO_EXEC_EXITED, .code = 3 },
    { 100, 53, "(sleep 0.2; exec sleep 0.1) >/dev/null 2>&1 &", .end = WALDO_EXEC_EXITED },
    { 20, 1, "head -c 20000 /dev/zero; echo e >&2; exit 5", .end = WALDO_EXEC_EXITED, .code = 5,
      .bytes = 20002 },
    { 20, 2, .argv = WALDO_STRINGS("cat"), .input = "some text", .end = WALDO_EXEC_EXITED,
      .bytes = 9 },
    { 100, 9, "kill -9 $$", .end = WALDO_EXEC_SIGNALED },
    { 100, 11, .argv = WALDO_STRINGS("/nowhere"), .status = WALDO_ESTART },
    { 100, 13, .argv = WALDO_STRINGS("sleep", "100"), .cancel = 1, .end = WALDO_EXEC_CANCELLED },
    { 2, 0, .argv = WALDO_STRINGS("true"), .end = WALDO_EXEC_EXITED },
    { 1, 0, .argv = WALDO_STRINGS("false"), .end = WALDO_EXEC_EXITED, .code = 1 },
};

typedef struct crowd {
    waldo_runtime *rt;
    waldo_sandbox *sandbox;
    long started;
    long until;
    int running;
    long bad;
} crowd;

typedef struct one {
    crowd *all;
    const kind *kind;
    long number;
} one;

static void start_next(crowd *all);

static void ended(void *userdata, waldo_status status, const waldo_exec_result *result,
                  const waldo_error *error)
{
    one *this = userdata;
    const kind *wanted = this->kind;
    crowd *all = this->all;

    if (status != wanted->status ||
        (status == WALDO_OK &&
         (result->end != wanted->end ||
          (result->end == WALDO_EXEC_EXITED && result->exit_code != wanted->code) ||
          result->out.total + result->err.total != wanted->bytes))) {
        all->bad++;
        fprintf(stderr, "command %ld: %s, end %d, code %d: %s\n", this->number,
                waldo_status_name(status), result != NULL ? (int)result->end : 0,
                result != NULL ? (int)result->exit_code : 0,
                error != NULL ? waldo_error_message(error) : "");
    }
    free(this);
    all->running--;
    start_next(all);
}

static void start_next(crowd *all)
{
    one *this = all->started < all->until ? malloc(sizeof *this) : NULL;
    const kind *next = kinds;
    waldo_job *job = NULL;

    if (this == NULL) {
        return;
    }
    while (all->started % next->every != next->rest % next->every) {
        next++;
    }
    *this = (one){ .all = all, .kind = next, .number = all->started++ };
    all->running++;
    if (waldo_sandbox_exec(
            all->sandbox,
            &WALDO_EXEC(.cmd = next->cmd, .argv = next->argv,
                        .input = { next->input, next->input != NULL ? strlen(next->input) : 0 },
                        .timeout_ms = next->timeout_ms, .grace_ms = 30),
            ended, this, &job, NULL) != WALDO_OK) {
        all->running--;
        all->bad++;
        free(this);
    } else if (next->cancel) {
        waldo_job_cancel(job);
    }
}

static void run_until(crowd *all, long number)
{
    all->until = number;
    for (int i = 0; i < WIDTH; i++) {
        start_next(all);
    }
    while (all->running > 0) {
        waldo_runtime_step(all->rt, WALDO_FOREVER);
    }
}

/* How many processes there are inside, this command's shell and cat among them. */
static long processes(const crowd *all, int show)
{
    waldo_exec_result *result = NULL;
    long count = 0;

    if (waldo_sandbox_exec_wait(all->sandbox, &WALDO_EXEC(.cmd = "cat /proc/[0-9]*/stat; exit 0"),
                                &result, NULL) != WALDO_OK) {
        return -1;
    }
    for (size_t i = 0; i < result->out.bytes.len; i++) {
        count += result->out.bytes.ptr[i] == '\n';
    }
    if (show) {
        fwrite(result->out.bytes.ptr, 1, result->out.bytes.len, stderr);
    }
    waldo_exec_result_free(result);
    return count;
}

/* What was left behind ends by itself. */
static void settle(crowd *all, long before)
{
    int steps = 0;

    while (processes(all, 0) != before && steps++ < SETTLE_STEPS) {
        waldo_runtime_step(all->rt, SETTLE_MS);
    }
    if (before <= 0 || steps >= SETTLE_STEPS) {
        all->bad++;
        fprintf(stderr, "%ld processes before, afterwards:\n", before);
        processes(all, 1);
    }
}

static void wait_for_a_line(const char *said)
{
    char line[16];

    puts(said);
    fflush(stdout);
    if (fgets(line, sizeof line, stdin) == NULL) {
        exit(1);
    }
}

int main(int argc, char **argv)
{
    crowd all = { 0 };
    waldo_sandbox_spec *spec;
    long count = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
    long before;

    if (count < 10) {
        fprintf(stderr, "usage: many-tool SANDBOX COUNT\n");
        return 2;
    }
    all.rt = waldo_runtime_new(&WALDO_RUNTIME(.keys = WALDO_KEYS_FROM_ENV));
    spec = waldo_sandbox_spec_new(&WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS(argv[1])));
    all.sandbox = waldo_sandbox_new(all.rt, spec);
    waldo_sandbox_spec_unref(spec);
    before = processes(&all, 0);
    run_until(&all, count / 10);
    settle(&all, before);
    wait_for_a_line("warm");
    run_until(&all, count);
    settle(&all, before);
    wait_for_a_line("done");
    waldo_sandbox_unref(all.sandbox);
    waldo_runtime_finish(all.rt);
    return all.bad > 0;
}

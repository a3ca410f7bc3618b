#include "sandbox/background.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/error.h"
#include "sandbox/job.h"

enum { ANSWER_MS = 10000 /* for a hand that was told to stop reading, or asked for the tail */ };
#define NUMBER_LAST INT64_C(1000000000000000)

struct waldo__background {
    waldo__background *next; /* newer */
    waldo_sandbox *sandbox;
    int64_t number;
    waldo_job *job;     /* NULL: over */
    uint32_t hand_id;   /* 0: not started yet, or never */
    int64_t started_ns; /* 0: as hand_id */
    waldo_exec_result *result;
    waldo_status status; /* over: WALDO_OK, or why there is no result */
    waldo_error *error;
    waldo_background_reading *read; /* in progress */
    uint64_t read_to;               /* where the last one ended */
    int adopt;                      /* told to run by the list that is coming */
    int unknown;                    /* ran when the stream broke; the list will tell */
    int cancelled;                  /* meanwhile */
    waldo__merge merge;             /* what it ended with */
};

typedef enum read_phase {
    PHASE_WAITING, /* for the machine, or for the command to be started */
    PHASE_READING, /* as it comes, as far as max goes */
    PHASE_TAIL,    /* what is newest of the rest */
    PHASE_READ
} read_phase;

struct waldo_background_reading {
    waldo__op op;
    waldo__background *of;
    uint64_t at; /* next byte of the output */
    size_t max;
    size_t got;
    uint64_t total; /* PHASE_TAIL: where it ends */
    int64_t wait_ms;
    int late;      /* the time is up */
    int cancelled; /* the hand was told so */
    int expects;   /* the timer is for the hand's answer now */
    read_phase phase;
    waldo__timer timer;
    waldo__hand_call *call;
    waldo__collect collect;
    waldo_background_fn done;
    void *userdata;
};

static waldo__background *find(const waldo_sandbox *sandbox, int64_t number)
{
    waldo__background *one = sandbox != NULL ? sandbox->backgrounds : NULL;

    while (one != NULL && one->number != number) {
        one = one->next;
    }
    return one;
}

static int is_running(const waldo__background *one)
{
    return one->job != NULL || one->unknown;
}

static int64_t ran_ns(const waldo__background *one)
{
    if (one->result != NULL) {
        return one->result->wall_ns;
    }
    return one->started_ns != 0 ? waldo__now_ns() - one->started_ns : 0;
}

static waldo_status none(waldo_error **ret_err, int64_t number)
{
    return waldo_error_set(ret_err, WALDO_ENOTFOUND, WALDO_CLASS_USAGE,
                           "no background command has the number %" PRId64, number);
}

/* ---- reading ---- */

static void expect_answer(waldo_background_reading *read)
{
    read->expects = 1;
    if (waldo__timer_arm(read->op.sandbox->env->loop, &read->timer,
                         waldo__deadline_ns(ANSWER_MS)) != WALDO_OK) {
        waldo__op_fail(&read->op, WALDO_ENOMEM, "out of memory");
    }
}

static void settle(waldo_background_reading *read)
{
    int over = read->of->job == NULL;

    if (read->op.state == WALDO__OP_ENDED) {
        return;
    }
    if (read->phase == PHASE_WAITING && over) {
        read->phase = PHASE_READ; /* it was never started */
    }
    if (read->phase == PHASE_READING && !read->cancelled &&
        (read->late || (over && read->got >= read->max))) {
        read->cancelled = 1;
        waldo__hand_cancel(read->call, 0);
        expect_answer(read);
    }
    if ((read->phase == PHASE_READ && (read->late || over)) ||
        (read->phase == PHASE_WAITING && read->late)) {
        waldo__op_end(&read->op, WALDO_OK, NULL);
    }
}

static void on_output(void *userdata, int stream, uint64_t offset, waldo_str bytes)
{
    waldo_background_reading *read = userdata;

    if (offset > read->at) {
        waldo__merge_flush(&read->of->merge, &read->collect);
        waldo__collect_skip(&read->collect, offset - read->at);
    }
    waldo__merge_add(&read->of->merge, &read->collect, stream, bytes);
    read->at = offset + bytes.len;
    read->got += bytes.len;
    if (read->phase == PHASE_TAIL && read->at >= read->total) {
        waldo__hand_cancel(read->call, 0);
        waldo__hand_forget(read->call);
        read->call = NULL;
        read->phase = PHASE_READ;
    }
    settle(read);
}

static void attach(waldo_background_reading *read, uint64_t offset, uint64_t credit,
                   read_phase phase);

/* The hand has stopped sending, at the end or because it was told to. */
static void on_ended(void *userdata, const waldo__hand_end *end)
{
    waldo_background_reading *read = userdata;
    uint64_t total = end->done != NULL ? end->done->value : 0;
    size_t tail = read->max / 2;
    read_phase before = read->phase;

    read->call = NULL;
    read->phase = PHASE_READ;
    if (end->status == WALDO_ENOTFOUND && read->of->job != NULL && read->of->job->call != NULL) {
        waldo__op_fail(&read->op, WALDO_ELOST, "the output of the command is no longer kept");
        return;
    }
    if (end->status != WALDO_OK && end->status != WALDO_ECANCELED &&
        end->status != WALDO_ENOTFOUND) {
        waldo__op_end(&read->op, end->status, waldo_error_copy(end->error));
        return;
    }
    if (before == PHASE_READING && total > read->at) {
        read->total = total;
        attach(read, total - read->at > tail ? total - tail : read->at,
               total - read->at > tail ? tail : total - read->at, PHASE_TAIL);
        expect_answer(read);
    }
    settle(read);
}

static const waldo__hand_call_fns read_fns = { .output = on_output, .ended = on_ended };

static void attach(waldo_background_reading *read, uint64_t offset, uint64_t credit,
                   read_phase phase)
{
    waldo_sandbox *sandbox = read->op.sandbox;
    waldo_status status = WALDO_ELOST;

    read->phase = phase;
    if (sandbox->hand != NULL) {
        status = waldo__hand_start_attach(sandbox->hand, read->of->hand_id, offset, credit,
                                          &read_fns, read, &read->call);
    }
    if (status != WALDO_OK) {
        waldo__op_fail(&read->op, status, "%s", waldo_status_text(status));
    }
}

/* The machine is there; or the command has been started or has ended meanwhile. */
static void read_start(waldo__op *op)
{
    waldo_background_reading *read = (waldo_background_reading *)op;

    if (read->wait_ms > 0) {
        if (waldo__timer_arm(op->sandbox->env->loop, &read->timer,
                             waldo__deadline_ns(read->wait_ms)) != WALDO_OK) {
            waldo__op_fail(op, WALDO_ENOMEM, "out of memory");
            return;
        }
        read->wait_ms = 0;
    } else {
        read->late = 1;
    }
    if (read->of->hand_id != 0) {
        attach(read, read->at, read->max, PHASE_READING);
    }
    settle(read);
}

static void time_is_up(void *userdata)
{
    waldo_background_reading *read = userdata;

    if (read->expects && read->phase != PHASE_READ) {
        waldo_error *error = NULL;

        waldo_error_set(&error, WALDO_ELOST, WALDO_CLASS_BACKEND,
                        "the hand did not answer when output was read");
        waldo__live_lose(read->op.sandbox, error);
        waldo_error_free(error);
        return;
    }
    read->late = 1;
    settle(read);
}

static void read_stop(waldo__op *op)
{
    waldo_background_reading *read = (waldo_background_reading *)op;

    waldo__timer_disarm(op->sandbox->env->loop, &read->timer);
    if (read->call != NULL) {
        waldo__hand_cancel(read->call, 0);
        waldo__hand_forget(read->call);
        read->call = NULL;
    }
}

static void read_finish(waldo__op *op, waldo_status status, const waldo_error *error)
{
    waldo_background_reading *read = (waldo_background_reading *)op;
    waldo__background *of = read->of;
    waldo_background_news news = { .size = sizeof news, .result = of->result, .next = read->at };

    read_stop(op);
    of->read = NULL;
    if (of->job == NULL) {
        status = of->status;
        error = of->error;
    }
    if (status != WALDO_OK) {
        read->done(read->userdata, status, NULL, error);
        return;
    }
    if (of->job == NULL) {
        waldo__merge_flush(&of->merge, &read->collect);
    }
    of->read_to = read->at;
    news.output = waldo__collect_output(&read->collect);
    news.ran_ns = ran_ns(of);
    read->done(read->userdata, WALDO_OK, &news, NULL);
}

static void read_free(waldo__op *op)
{
    waldo_background_reading *read = (waldo_background_reading *)op;

    waldo__collect_free(&read->collect);
    waldo__free(read);
}

static const waldo__op_kind read_kind = {
    .start = read_start, .stop = read_stop, .finish = read_finish, .free = read_free
};

waldo_status waldo_background_read(waldo_sandbox *sandbox, int64_t number, uint64_t offset,
                                   size_t max, int64_t wait_ms, waldo_background_fn done,
                                   void *userdata, waldo_background_reading **ret_read,
                                   waldo_error **ret_err)
{
    waldo__background *of = find(sandbox, number);
    waldo_background_reading *read;

    if (done == NULL) {
        return waldo__error_invalid(ret_err, "read: done is NULL");
    }
    if (of == NULL) {
        return none(ret_err, number);
    }
    if (of->read != NULL) {
        return waldo_error_set(ret_err, WALDO_EBUSY, WALDO_CLASS_USAGE,
                               "background command %" PRId64 " is being waited for already",
                               number);
    }
    read = WALDO__NEW(waldo_background_reading);
    if (read == NULL) {
        return waldo__error_nomem(ret_err);
    }
    read->op.sandbox = sandbox;
    read->of = of;
    read->at = offset != WALDO_BACKGROUND_ON ? offset : of->read_to;
    if (read->at != of->read_to) {
        of->merge = (waldo__merge){ .cut_len = { 0, 0 } };
    }
    read->max = max > 1 ? max : 2;
    read->wait_ms = wait_ms;
    read->done = done;
    read->userdata = userdata;
    waldo__timer_init(&read->timer, time_is_up, read);
    waldo__collect_init(&read->collect, read->max);
    of->read = read;
    if (ret_read != NULL) {
        *ret_read = read;
    }
    waldo__op_begin(sandbox, &read->op, &read_kind);
    return WALDO_OK;
}

void waldo_background_hurry(waldo_background_reading *read)
{
    if (read == NULL) {
        return;
    }
    read->late = 1;
    settle(read);
}

/* ---- the commands ---- */

int waldo__background_offered(const waldo_sandbox *sandbox)
{
    return waldo_sandbox_spec_error(sandbox->spec) == NULL &&
           (waldo__live_caps(sandbox) & WALDO_BACKEND_CHANNEL) != 0;
}

static void command_started(void *userdata, uint32_t hand_id)
{
    waldo__background *one = userdata;

    one->hand_id = hand_id;
    one->started_ns = waldo__now_ns();
    if (one->read != NULL && one->read->phase == PHASE_WAITING &&
        one->read->op.state == WALDO__OP_RUNNING) {
        attach(one->read, one->read->at, one->read->max, PHASE_READING);
    }
}

static void command_ended(void *userdata, waldo_status status, const waldo_exec_result *result,
                          const waldo_error *error)
{
    waldo__background *one = userdata;

    one->job = NULL;
    if (one->unknown || one->result != NULL) { /* for this session only; or it is lost already */
        return;
    }
    one->status = status;
    one->error = waldo_error_copy(error);
    if (status == WALDO_OK) {
        one->result = waldo__exec_result_copy(result);
        one->status = one->result != NULL ? WALDO_OK : waldo__error_nomem(&one->error);
    }
    if (one->read != NULL) {
        settle(one->read);
    }
}

static void drop(waldo__background *one)
{
    waldo_sandbox *sandbox = one->sandbox;
    waldo__background **at = &sandbox->backgrounds;

    while (*at != one) {
        at = &(*at)->next;
    }
    *at = one->next;
    if (one->hand_id != 0 && sandbox->hand != NULL) {
        waldo__hand_forget_job(sandbox->hand, one->hand_id);
    }
    waldo_exec_result_free(one->result);
    waldo_error_free(one->error);
    waldo__free(one);
}

/* Room for one more: the oldest that is over and not being read goes. */
static int make_room(waldo_sandbox *sandbox)
{
    waldo__background *oldest = NULL;
    size_t count = 0;

    for (waldo__background *one = sandbox->backgrounds; one != NULL; one = one->next) {
        count++;
        if (oldest == NULL && !is_running(one) && one->read == NULL) {
            oldest = one;
        }
    }
    if (count >= WALDO_BACKGROUND_MAX && oldest != NULL) {
        drop(oldest);
        count--;
    }
    return count < WALDO_BACKGROUND_MAX;
}

static waldo_status check(const waldo_exec_options *options, waldo_error **ret_err)
{
    const char *wrong = NULL;

    if (options->on_output != NULL || (options->flags & WALDO_EXEC_ALL_OUTPUT) != 0) {
        wrong = "a background command has no live output: it is read";
    } else if (options->max_output > WALDO_BACKGROUND_KEPT_MAX) {
        wrong = "of a background command at most 1 MiB of output is kept";
    } else if (options->cmd != NULL &&
               strnlen(options->cmd, WALDO_BACKGROUND_CMD_MAX + 1) > WALDO_BACKGROUND_CMD_MAX) {
        wrong = "a background command has at most 192 KiB of text";
    }
    return wrong == NULL ? WALDO_OK : waldo__error_invalid(ret_err, "exec: %s", wrong);
}

/* The numbers of a machine that was there before are known when it is open. */
int waldo__background_ready(const waldo_sandbox *sandbox)
{
    return sandbox->was_open || !waldo__live_durable(sandbox) ||
           (sandbox->saved == NULL && waldo__live_entry(sandbox)->name == NULL);
}

waldo_status waldo_background_start(waldo_sandbox *sandbox, const waldo_exec_options *given,
                                    int64_t *ret_number, waldo_error **ret_err)
{
    waldo_exec_options options;
    waldo__background **end;
    waldo__background *one;
    waldo_status status;

    if (sandbox == NULL || given == NULL || ret_number == NULL ||
        waldo__options_copy(&options, sizeof options, given) != WALDO_OK) {
        return waldo__error_invalid(ret_err,
                                    "exec: sandbox, options or ret_number missing, or options of a "
                                    "newer library");
    }
    options.size = sizeof options;
    status = check(&options, ret_err);
    if (status != WALDO_OK) {
        return status;
    }
    if (!waldo__background_ready(sandbox)) {
        return waldo_error_set(ret_err, WALDO_EBUSY, WALDO_CLASS_USAGE,
                               "a machine that may have commands already has to be opened before "
                               "one more is started in the background");
    }
    if (!make_room(sandbox)) {
        return waldo_error_set(ret_err, WALDO_EBUSY, WALDO_CLASS_USAGE,
                               "%d commands are in the background already; end some of them first",
                               WALDO_BACKGROUND_MAX);
    }
    one = WALDO__NEW(waldo__background);
    if (one == NULL) {
        return waldo__error_nomem(ret_err);
    }
    options.max_output = options.max_output != 0 ? options.max_output : WALDO_BACKGROUND_KEPT;
    options.timeout_ms = options.timeout_ms != 0 ? options.timeout_ms : WALDO_FOREVER;
    one->sandbox = sandbox;
    one->number = sandbox->next_background + 1;
    status = waldo__exec_kept(sandbox, &options, one->number, command_ended, command_started, one,
                              &one->job, ret_err);
    if (status != WALDO_OK) {
        waldo__free(one);
        return status;
    }
    for (end = &sandbox->backgrounds; *end != NULL; end = &(*end)->next) {
    }
    *end = one;
    sandbox->next_background = one->number;
    *ret_number = one->number;
    return WALDO_OK;
}

static waldo_status running(const waldo_sandbox *sandbox, int64_t number, waldo_job **ret_job)
{
    waldo__background *one = find(sandbox, number);

    if (one == NULL || one->unknown || one->job == NULL) {
        return one == NULL ? WALDO_ENOTFOUND : one->unknown ? WALDO_EBUSY : WALDO_ECLOSED;
    }
    *ret_job = one->job;
    return WALDO_OK;
}

waldo_status waldo_background_write(waldo_sandbox *sandbox, int64_t number, waldo_str bytes,
                                    int eof)
{
    waldo_job *job = NULL;
    waldo_status status = running(sandbox, number, &job);

    return status == WALDO_OK ? waldo_job_write(job, bytes, eof) : status;
}

waldo_status waldo_background_signal(waldo_sandbox *sandbox, int64_t number, int signal)
{
    waldo_job *job = NULL;
    waldo_status status = running(sandbox, number, &job);

    return status == WALDO_OK ? waldo_job_signal(job, signal) : status;
}

waldo_status waldo_background_resize(waldo_sandbox *sandbox, int64_t number, uint32_t rows,
                                     uint32_t columns)
{
    waldo_job *job = NULL;
    waldo_status status = running(sandbox, number, &job);

    return status == WALDO_OK ? waldo_job_resize(job, rows, columns) : status;
}

void waldo_background_cancel(waldo_sandbox *sandbox, int64_t number)
{
    waldo__background *one = find(sandbox, number);

    if (one != NULL && one->unknown) {
        one->cancelled = 1;
    } else if (one != NULL) {
        waldo_job_cancel(one->job);
    }
}

waldo_status waldo_background_forget(waldo_sandbox *sandbox, int64_t number)
{
    waldo__background *one = find(sandbox, number);

    if (one == NULL) {
        return WALDO_ENOTFOUND;
    }
    if (is_running(one) || one->read != NULL) {
        return WALDO_EBUSY;
    }
    drop(one);
    return WALDO_OK;
}

size_t waldo_background_list(const waldo_sandbox *sandbox, waldo_background_info *ret_infos,
                             size_t max)
{
    const waldo__background *one = sandbox != NULL ? sandbox->backgrounds : NULL;
    size_t count = 0;

    for (; one != NULL; one = one->next, count++) {
        if (count < max) {
            ret_infos[count] = (waldo_background_info){ .number = one->number,
                                                        .ran_ns = ran_ns(one),
                                                        .running = is_running(one),
                                                        .reading = one->read != NULL };
        }
    }
    return count;
}

/* ---- those of earlier sessions ---- */

static waldo_status take_ended(waldo__background *one, const waldo__hand_job *job)
{
    waldo_output none_here = { .bytes = { "", 0 }, .omitted = job->total, .total = job->total };
    waldo_exec_result result = { .size = sizeof result, .timeout_ms = WALDO_FOREVER };

    waldo__exec_result_of(&job->exit, &result);
    result.out = result.both = none_here;
    result.err.bytes = WALDO__S("");
    one->result = waldo__exec_result_copy(&result);
    return one->result != NULL ? WALDO_OK : WALDO_ENOMEM;
}

/* One that was known before the stream broke. */
static waldo_status told_again(waldo__background *one, const waldo__hand_job *job)
{
    if (one->hand_id != job->id || one->job != NULL || one->adopt) {
        return WALDO_EPROTO;
    }
    if (!one->unknown) {
        return WALDO_OK; /* its result is here */
    }
    one->unknown = 0;
    one->adopt = job->state == WALDO_HAND_STATE_RUNNING;
    return one->adopt ? WALDO_OK : take_ended(one, job);
}

/* A label is the number that an earlier host gave; what else it says is not believed. */
static waldo_status told_job(void *userdata, const waldo__hand_job *job)
{
    waldo_sandbox *sandbox = userdata;
    waldo__background **at = &sandbox->backgrounds;
    waldo__background *one;
    int64_t number;
    waldo_status status = WALDO_OK;

    if (!waldo__str_int(job->label, &number) || number < 1 || number > NUMBER_LAST) {
        return WALDO_EPROTO;
    }
    for (; *at != NULL && (*at)->number < number; at = &(*at)->next) {
    }
    if (*at != NULL && (*at)->number == number) {
        return told_again(*at, job);
    }
    one = WALDO__NEW(waldo__background);
    if (one == NULL) {
        return WALDO_ENOMEM;
    }
    *one = (waldo__background){ .next = *at,
                                .sandbox = sandbox,
                                .number = number,
                                .hand_id = job->id,
                                .adopt = job->state == WALDO_HAND_STATE_RUNNING };
    *at = one;
    if (!one->adopt) {
        status = take_ended(one, job);
    }
    if (number > sandbox->next_background) {
        sandbox->next_background = number;
    }
    return status;
}

void waldo__background_lost(waldo_sandbox *sandbox)
{
    const waldo_exec_result result = { .size = sizeof result,
                                       .end = WALDO_EXEC_LOST,
                                       .timeout_ms = WALDO_FOREVER,
                                       .out.bytes = { "", 0 },
                                       .err.bytes = { "", 0 },
                                       .both.bytes = { "", 0 } };

    for (waldo__background *one = sandbox->backgrounds; one != NULL; one = one->next) {
        if (one->unknown) {
            one->unknown = 0;
            one->result = waldo__exec_result_copy(&result);
            one->status = one->result != NULL ? WALDO_OK : waldo__error_nomem(&one->error);
        }
    }
}

void waldo__background_gone(waldo_sandbox *sandbox, waldo__buf *ret_numbers)
{
    for (waldo__background *one = sandbox->backgrounds; one != NULL; one = one->next) {
        if (one->hand_id != 0 && is_running(one)) {
            waldo__buf_printf(ret_numbers, "%s%" PRId64, ret_numbers->len > 0 ? ", " : "",
                              one->number);
        }
        one->hand_id = 0;
    }
    waldo__background_lost(sandbox);
}

static void list_ended(void *userdata, const waldo__hand_end *end)
{
    waldo_sandbox *sandbox = userdata;
    waldo_status status = end->status;
    waldo_error *error = waldo_error_copy(end->error);

    for (waldo__background *one = sandbox->backgrounds; one != NULL; one = one->next) {
        if (one->adopt && status == WALDO_OK) {
            status =
                waldo__exec_adopt(sandbox, one->hand_id, command_ended, one, &one->job, &error);
        }
        if (one->adopt && one->cancelled && status == WALDO_OK) {
            waldo_job_cancel(one->job);
        }
        one->adopt = one->cancelled = 0;
    }
    waldo__background_lost(sandbox); /* what was not told: dropped, or never begun */
    /* Names that no earlier host has used: two files a command at most. */
    if (status == WALDO_OK && (sandbox->info.flags & WALDO_MACHINE_FOREIGN) == 0) {
        sandbox->next_file += 2 * end->done->value;
    }
    waldo__live_recovered(sandbox, status, error);
    waldo_error_free(error);
}

static const waldo__hand_call_fns list_fns = { .job = told_job, .ended = list_ended };

void waldo__background_unknown(waldo_sandbox *sandbox)
{
    for (waldo__background *one = sandbox->backgrounds; one != NULL; one = one->next) {
        one->unknown = one->job != NULL && one->hand_id != 0;
    }
}

void waldo__background_recover(waldo_sandbox *sandbox)
{
    waldo__background **at = &sandbox->backgrounds;
    waldo__hand_call *call;
    waldo_status status;

    while (*at != NULL && !sandbox->was_open &&
           (sandbox->failover.generation == 0 || sandbox->info.reached)) {
        if ((*at)->job == NULL && (*at)->read == NULL) {
            (*at)->hand_id = 0; /* of an attempt that failed: not to be forgotten by the hand */
            drop(*at);
        } else {
            at = &(*at)->next;
        }
    }
    status = waldo__hand_start_list(sandbox->hand, &list_fns, sandbox, &call);
    if (status != WALDO_OK) {
        waldo__live_recovered(sandbox, status, NULL);
    }
}

void waldo__background_free_all(waldo_sandbox *sandbox)
{
    while (sandbox->backgrounds != NULL) {
        drop(sandbox->backgrounds);
    }
}

/*
 * No request without need: what an operation on a live sandbox sends is held to requests.txt. The
 * local backend is registered once more under another name, with a channel that counts frames.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hand/protocol.h"
#include "sandbox/registry.h"
#include "sandbox/live.h"

typedef struct counting {
    waldo_channel base;
    waldo_channel *inner;
} counting;

static int frames; /* sent since count_from_here() */
static unsigned char head[WALDO_HAND_HEADER_LEN];
static size_t head_len, body_left;

/* Frames in a stream that is cut anywhere. */
static void count(waldo_str bytes)
{
    for (size_t i = 0; i < bytes.len;) {
        if (body_left > 0) {
            size_t part = bytes.len - i < body_left ? bytes.len - i : body_left;

            body_left -= part;
            i += part;
            continue;
        }
        head[head_len++] = (unsigned char)bytes.ptr[i++];
        if (head_len == sizeof head) {
            head_len = 0;
            body_left =
                head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16 | (size_t)head[3] << 24;
            frames++;
        }
    }
}

static waldo_channel *inner(const waldo_channel *channel)
{
    return ((const counting *)channel)->inner;
}

static void counting_listen(waldo_channel *channel, const waldo_channel_events *events)
{
    inner(channel)->ops->listen(inner(channel), events);
}

static waldo_status counting_send(waldo_channel *channel, waldo_str bytes)
{
    count(bytes);
    return inner(channel)->ops->send(inner(channel), bytes);
}

static size_t counting_queued(const waldo_channel *channel)
{
    return inner(channel)->ops->queued(inner(channel));
}

static void counting_pause(waldo_channel *channel, int paused)
{
    inner(channel)->ops->pause(inner(channel), paused);
}

static void counting_close(waldo_channel *channel)
{
    inner(channel)->ops->close(inner(channel));
    free(channel);
}

static const waldo_channel_ops counting_ops = {
    .version = WALDO_BACKEND_VERSION,
    .size = sizeof(waldo_channel_ops),
    .listen = counting_listen,
    .send = counting_send,
    .queued = counting_queued,
    .pause = counting_pause,
    .close = counting_close,
};

/* One channel is opened at a time here. */
static waldo_backend_channel_fn waiting;
static const waldo_backend_ops *local;

static void got_channel(void *userdata, waldo_status status, waldo_channel *channel,
                        const waldo_error *error)
{
    counting *wrapped = NULL;

    if (status == WALDO_OK) {
        wrapped = malloc(sizeof *wrapped);
        *wrapped = (counting){ .base = { &counting_ops }, .inner = channel };
    }
    waiting(userdata, status, wrapped != NULL ? &wrapped->base : NULL, error);
}

static void counted_channel(waldo_machine *machine, const waldo_backend_call *call,
                            waldo_backend_channel_fn done)
{
    waiting = done;
    local->channel(machine, call, got_channel);
}

/* ---- the operations ---- */

typedef struct outcome {
    int count;
    waldo_status status;
} outcome;

static void took_exec(void *userdata, waldo_status status, const waldo_exec_result *result,
                      const waldo_error *error)
{
    outcome *out = userdata;

    (void)result;
    (void)error;
    out->count++;
    out->status = status;
}

static void took_done(void *userdata, waldo_status status, const waldo_error *error)
{
    took_exec(userdata, status, NULL, error);
}

static void took_bytes(void *userdata, waldo_status status, waldo_str bytes, uint64_t file_size,
                       const waldo_error *error)
{
    (void)bytes;
    (void)file_size;
    took_exec(userdata, status, NULL, error);
}

static void took_infos(void *userdata, waldo_status status, const waldo_file_info *infos,
                       size_t info_count, const waldo_error *error)
{
    (void)infos;
    (void)info_count;
    took_exec(userdata, status, NULL, error);
}

static void start(waldo_sandbox *sandbox, const char *operation, outcome *out)
{
    if (strcmp(operation, "command") == 0) {
        assert_int_equal(waldo_sandbox_exec(sandbox, &WALDO_EXEC(.cmd = "echo hello"), took_exec,
                                            out, NULL, NULL),
                         WALDO_OK);
    } else if (strcmp(operation, "command_cancelled_again_and_again") == 0) {
        waldo_job *job;

        assert_int_equal(waldo_sandbox_exec(sandbox, &WALDO_EXEC(.cmd = "sleep 100"), took_exec,
                                            out, &job, NULL),
                         WALDO_OK);
        for (int i = 0; i < 100; i++) {
            waldo_job_cancel(job);
        }
    } else if (strcmp(operation, "command_with_input") == 0) {
        assert_int_equal(waldo_sandbox_exec(sandbox,
                                            &WALDO_EXEC(.cmd = "cat", .input = { "some text", 9 }),
                                            took_exec, out, NULL, NULL),
                         WALDO_OK);
    } else if (strcmp(operation, "write") == 0) {
        waldo_sandbox_write(sandbox, "file", (waldo_str){ "some text", 9 }, 0, took_done, out);
    } else if (strcmp(operation, "read") == 0) {
        waldo_sandbox_read(sandbox, "file", 0, 4096, took_bytes, out);
    } else if (strcmp(operation, "stat") == 0) {
        waldo__sandbox_stat(sandbox, "file", took_infos, out);
    } else if (strcmp(operation, "list") == 0) {
        waldo__sandbox_list(sandbox, ".", 0, 100, took_infos, out);
    } else {
        fail_msg("requests.txt names an unknown operation: %s", operation);
    }
}

static void run(waldo_runtime *rt, waldo_sandbox *sandbox, const char *operation)
{
    outcome out = { 0 };

    start(sandbox, operation, &out);
    while (out.count == 0) {
        assert_int_equal(waldo_runtime_step(rt, 60000), WALDO_OK);
    }
    assert_int_equal(out.status, WALDO_OK);
}

static int have_spare(waldo_runtime *rt)
{
    const waldo__sandbox_node *ring = waldo__runtime_sandboxes(rt);

    for (waldo__sandbox_node *node = ring->next; node != ring; node = node->next) {
        const waldo_sandbox *other = waldo__sandbox_of_node(node);

        if (other->is_spare && other->state == WALDO__LIVE_OPEN) {
            return 1;
        }
    }
    return 0;
}

/* The frames of opening a sandbox with a machine that was opened ahead. */
static void open_with_spare(waldo_runtime *rt, waldo_sandbox_spec *spec)
{
    waldo_sandbox *sandbox = waldo_sandbox_new(rt, spec);
    outcome out = { 0 };

    while (!have_spare(rt)) {
        assert_int_equal(waldo_runtime_step(rt, 60000), WALDO_OK);
    }
    frames = 0;
    waldo_sandbox_open(sandbox, took_done, &out);
    while (out.count == 0) {
        assert_int_equal(waldo_runtime_step(rt, 60000), WALDO_OK);
    }
    assert_int_equal(out.status, WALDO_OK);
    waldo_sandbox_unref(sandbox);
}

static void operations_send_what_the_table_says(void **state)
{
    waldo_runtime *rt = waldo_runtime_new(NULL);
    waldo_sandbox_spec *spec =
        waldo_sandbox_spec_new(&WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS("counted:,spares=1")));
    waldo_sandbox *sandbox = waldo_sandbox_new(rt, spec);
    FILE *table = fopen(REQUESTS_TABLE, "re");
    char line[256], operation[64];
    int wanted, rows = 0;

    (void)state;
    assert_non_null(table);
    run(rt, sandbox, "command"); /* opens the machine */
    while (!have_spare(rt)) {    /* whose HELLO is no frame of what comes next */
        assert_int_equal(waldo_runtime_step(rt, 60000), WALDO_OK);
    }
    while (fgets(line, sizeof line, table) != NULL) {
        if (line[0] == '#' || sscanf(line, "hand %63s %d", operation, &wanted) != 2) {
            continue;
        }
        frames = 0;
        if (strcmp(operation, "open_with_spare") == 0) {
            open_with_spare(rt, spec);
        } else {
            run(rt, sandbox, operation);
        }
        if (frames != wanted) {
            fail_msg("%s sent %d frames; requests.txt allows %d", operation, frames, wanted);
        }
        rows++;
    }
    fclose(table);
    assert_true(rows >= 6);
    waldo_sandbox_unref(sandbox);
    waldo_sandbox_spec_unref(spec);
    waldo_runtime_finish(rt);
}

static int register_counted(void **state)
{
    static waldo_backend_ops ops;

    (void)state;
    local = waldo__backend_find(WALDO__S("local"));
    if (local == NULL) {
        return -1;
    }
    ops = *local;
    ops.name = "counted";
    ops.channel = counted_channel;
    return waldo_backend_register(&ops, NULL) == WALDO_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_send_what_the_table_says),
    };

    return !!cmocka_run_group_tests(tests, register_counted, NULL);
}

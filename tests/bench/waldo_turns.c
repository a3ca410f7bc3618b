/*
 * The library at work, through its public headers, with the same turns as bare_curl.c.
 *
 *   --mode turns     conversations of --turns requests, --concurrency at a time
 *   --mode stall     the same driven by poll(2) on the one descriptor; the longest dispatch,
 *                    asked to end after --slice-us
 *   --mode history   CPU per turn around turns 10, 100 and so on up to --turns
 *   --mode idle      --runs conversations of one answer each stay open: memory for one
 *   --mode request   one request, for the clock of startup.c
 * --api is "chat", "openai" (Responses) or "anthropic" (Messages).
 * --hold N first opens N runs whose model stream stays open: memory for one; the other figures then
 * stand beside them.
 */
#include "bench.h"
#include "workload.h"

#include <waldo/waldo.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct slot {
    struct host *host;
    long requests; /* answered in this conversation */
    bool held;
    bool started;
    bool keep; /* stays open when it comes to rest */
};

struct host {
    const struct bench_args *args;
    waldo_runtime *rt;
    waldo_agent *agent;
    waldo_agent *holding_agent;
    long turns; /* requests in one conversation */
    long to_start;
    long running;
    long held_started;
    long requests;
    size_t text_bytes;
    bool by_descriptor;
    bool closing;
    double longest_wall_us; /* of one dispatch */
    double longest_cpu_us;
    bool failed;
};

static waldo_status find_key(void *userdata, const char *name, waldo_str *ret_value,
                             int64_t *ret_expires_at)
{
    static const char key[] = "bench-key-0001";

    (void)userdata;
    (void)name;
    *ret_value = (waldo_str){ key, sizeof(key) - 1 };
    *ret_expires_at = 0;
    return WALDO_OK;
}

static waldo_status lookup(void *userdata, waldo_tool_call *call)
{
    (void)userdata;
    if (waldo_tool_call_str(call, BENCH_PARAM) == NULL) {
        return waldo_tool_call_fail(call, "no " BENCH_PARAM);
    }
    return waldo_tool_call_reply(call, BENCH_RESULT);
}

static waldo_agent *make_agent(const struct bench_args *args, const char *model_name)
{
    char model[128];

    snprintf(model, sizeof(model), "%s:http://127.0.0.1:%ld/v1#%s", args->api, args->port,
             model_name);
    return waldo_agent_new(
        &WALDO_AGENT(.model = model, .instructions = BENCH_INSTRUCTIONS,
                     .tools = WALDO_TOOLS(
                         WALDO_TOOL(.name = BENCH_TOOL, .about = BENCH_TOOL_ABOUT,
                                    .params = WALDO_PARAMS({ .name = BENCH_PARAM,
                                                             .type = WALDO_STRING,
                                                             .about = BENCH_PARAM_ABOUT }),
                                    .call = lookup,
                                    .flags = WALDO_PARALLEL_SAFE | WALDO_IDEMPOTENT))));
}

static void on_ready(void *userdata, waldo_run *run);

static bool start_run(struct host *host, struct slot *slot)
{
    waldo_agent *agent = slot->held ? host->holding_agent : host->agent;
    waldo_run *run =
        waldo_run_new(host->rt, agent, &WALDO_RUN(.prompt = BENCH_PROMPT, .userdata = slot));

    slot->host = host;
    slot->requests = 0;
    if (run == NULL) {
        host->failed = true;
        return false;
    }
    waldo_run_on_ready(run, on_ready, slot);
    host->running += slot->held ? 0 : 1;
    return true;
}

/* A conversation goes on, makes place for the next, or stays as it is. */
static void at_rest(struct slot *slot, waldo_run *run)
{
    struct host *host = slot->host;

    if (waldo_run_status(run) != WALDO_OK) {
        fprintf(stderr, "run failed: %s\n", waldo_run_errmsg(run));
        host->failed = true;
        return;
    }
    if (slot->requests < host->turns) {
        if (waldo_run_send(run, BENCH_PROMPT) != WALDO_OK) {
            host->failed = true;
        }
        return;
    }
    host->running--;
    if (slot->keep) {
        waldo_run_on_ready(run, NULL, NULL);
    } else {
        waldo_run_free(run);
    }
    if (host->to_start > 0) {
        host->to_start--;
        start_run(host, slot);
    }
}

static void on_ready(void *userdata, waldo_run *run)
{
    struct slot *slot = userdata;
    const waldo_event *event;
    waldo_status status;

    while ((status = waldo_run_next(run, 0, &event)) == WALDO_OK) {
        switch (waldo_event_type(event)) {
        case WALDO_EVENT_TEXT:
            slot->host->text_bytes += waldo_event_text(event).len;
            if (slot->held && !slot->started) {
                slot->started = true;
                slot->host->held_started++;
            }
            break;
        case WALDO_EVENT_USAGE:
            slot->requests++;
            slot->host->requests++;
            break;
        default:
            break;
        }
    }
    if (status == WALDO_END && !slot->host->closing) {
        at_rest(slot, run);
    }
}

static void drive(struct host *host)
{
    if (!host->by_descriptor) {
        waldo_runtime_step(host->rt, WALDO_FOREVER);
        return;
    }

    struct pollfd poller = { .fd = waldo_runtime_fd(host->rt), .events = POLLIN };

    poll(&poller, 1, -1);

    double wall = bench_wall_us();
    double cpu = bench_thread_cpu_us();

    waldo_runtime_dispatch(host->rt, (uint32_t)host->args->slice_us);
    wall = bench_wall_us() - wall;
    cpu = bench_thread_cpu_us() - cpu;
    host->longest_wall_us = wall > host->longest_wall_us ? wall : host->longest_wall_us;
    host->longest_cpu_us = cpu > host->longest_cpu_us ? cpu : host->longest_cpu_us;
}

static void run_conversations(struct host *host, long count, bool keep)
{
    long at_once = count < host->args->concurrency ? count : host->args->concurrency;
    struct slot *slots = calloc((size_t)at_once + 1, sizeof(*slots));

    if (slots == NULL) {
        host->failed = true;
        return;
    }
    host->to_start = count - at_once;
    for (long i = 0; i < at_once && !host->failed; i++) {
        slots[i].keep = keep;
        start_run(host, &slots[i]);
    }
    while (host->running > 0 && !host->failed) {
        drive(host);
    }
    free(slots);
}

static struct slot *hold_streams(struct host *host)
{
    long count = host->args->hold;
    struct slot *held = calloc((size_t)count + 1, sizeof(*held));
    long before = 0;

    for (long i = 0; held != NULL && i < count && !host->failed; i++) {
        held[i].held = true;
        start_run(host, &held[i]);
        if (i == 9 || i % 64 == 63 || i == count - 1) {
            while (host->held_started <= i && !host->failed) {
                drive(host);
            }
        }
        if (i == 9) {
            before = bench_rss_kib();
        }
    }
    if (count > 10) {
        printf("\"held_kib_each\":%.2f,",
               (double)(bench_rss_kib() - before) / (double)(count - 10));
    }
    return held;
}

static void measure_turns(struct host *host)
{
    run_conversations(host, host->args->warmup, false);
    host->requests = 0;
    host->text_bytes = 0;
    host->longest_wall_us = 0;
    host->longest_cpu_us = 0;

    struct bench_mark start = bench_now();

    run_conversations(host, host->args->runs, false);

    struct bench_mark spent = bench_since(start);
    double turns = host->requests == 0 ? 1 : (double)host->requests;

    printf("\"turns\":%ld,\"text_bytes\":%zu,\"cpu_us_per_turn\":%.2f,\"wall_us_per_turn\":%.2f",
           host->requests, host->text_bytes, spent.cpu_us / turns, spent.wall_us / turns);
    if (host->by_descriptor) {
        printf(",\"longest_dispatch_us\":%.0f,\"longest_dispatch_cpu_us\":%.0f",
               host->longest_wall_us, host->longest_cpu_us);
    }
}

static void measure_idle(struct host *host)
{
    run_conversations(host, host->args->warmup, true);

    long before = bench_rss_kib();

    run_conversations(host, host->args->runs, true);
    printf("\"idle_kib_each\":%.2f", (double)(bench_rss_kib() - before) / (double)host->args->runs);
}

/* CPU of one turn in the tenth of a conversation around its turn number middle. */
static double around_turn(struct host *host, long middle)
{
    double cpu_us = 0;
    long counted = 0;

    for (long i = 0; i < 400 / middle + 1 && !host->failed; i++) {
        struct slot slot = { 0 };
        long first = middle - middle / 10 - 1;
        long last = middle + middle / 10;

        host->turns = last;
        host->requests = 0;
        start_run(host, &slot);
        while (host->requests < first && !host->failed) {
            drive(host);
        }

        long before = host->requests;
        struct bench_mark start = bench_now();

        while (host->running > 0 && !host->failed) {
            drive(host);
        }
        cpu_us += bench_since(start).cpu_us;
        counted += host->requests - before;
    }
    return cpu_us / (double)counted;
}

static void measure_history(struct host *host)
{
    const char *separator = "";

    printf("\"history\":{");
    for (long middle = 10; middle <= host->args->turns; middle *= 10) {
        printf("%s\"%ld\":%.2f", separator, middle, around_turn(host, middle));
        separator = ",";
    }
    printf("}");
}

int main(int argc, char **argv)
{
    static const waldo_keys keys = { .size = sizeof(waldo_keys), .get = find_key };
    struct bench_args args;
    struct host host = { .args = &args };

    if (!bench_parse(argc, argv, &args)) {
        return 2;
    }
    bench_many_files();
    host.turns = args.turns;
    host.rt = waldo_runtime_new(&WALDO_RUNTIME(.keys = &keys));
    host.agent = make_agent(&args, args.model);
    if (strcmp(args.mode, "request") == 0) {
        run_conversations(&host, 1, false);
        return 1; /* startup.c has ended us by now */
    }
    host.holding_agent = make_agent(&args, "bench-hold");
    host.by_descriptor = strcmp(args.mode, "stall") == 0;
    printf("{\"program\":\"waldo\",");

    struct slot *held = hold_streams(&host);

    if (strcmp(args.mode, "history") == 0) {
        measure_history(&host);
    } else if (strcmp(args.mode, "idle") == 0) {
        measure_idle(&host);
    } else {
        measure_turns(&host);
    }
    printf(",\"peak_kib\":%ld}\n", bench_peak_kib());
    host.closing = true; /* held runs end as cancelled now */
    waldo_agent_unref(host.agent);
    waldo_agent_unref(host.holding_agent);
    waldo_runtime_free(host.rt);
    free(held);
    return host.failed;
}

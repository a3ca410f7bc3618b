/*
 * What a sandbox of a cloud provider costs here, with the provider's stand-in on loopback: commands
 * and new sandboxes, through waldo, bare libcurl and the provider's own clients in turn.
 *
 *   bench_cloud_latency MODE ROUNDS SANDBOX COUNT_URL FOLDER [NAME PROGRAM SCRIPT]...
 *
 * MODE: probe   one command through waldo, for who wants to see its requests; no peers
 *       exec    `true` in a sandbox that is open
 *       many    16 of them at once, and one through waldo
 *       open    a new sandbox to its first result: waldo and peers
 *
 * COUNT_URL answers with the number of requests so far; FOLDER is for cloud_floor.h. A peer reads
 * lines and answers each with one: a number, so many of `true` at once; "new", a new sandbox and
 * one command; "end", that one's end. Where the provider is, the environment says to all.
 *
 * Prints one JSON object: microseconds, processor time and requests by name, see exec_case.h.
 */
#include "bench.h"
#include "cloud_floor.h"
#include "exec_case.h"
#include "peer.h"
#include "waldo_side.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARMUP = 5, MANY = 16, FIRST_PEER = 6 };

static const char *sandbox;
static const char *count_url;
static const char *folder;

static double own_cpu_us(void)
{
    return bench_now().cpu_us;
}

static long requests(void)
{
    return floor_number(count_url);
}

static bool waldo_new(void)
{
    return waldo_side_begin(sandbox);
}

static bool waldo_open(void)
{
    return waldo_new() && waldo_side_exec(1);
}

static bool waldo_once(void)
{
    return waldo_side_exec(1);
}

static bool waldo_many_once(void)
{
    return waldo_side_exec(MANY);
}

static void waldo_again(void)
{
    waldo_side_renew();
}

static bool libcurl_open(void)
{
    return floor_begin(folder);
}

#define COUNTED .cpu_us = own_cpu_us, .requests = requests

static const struct exec_case probe_case = {
    .name = "waldo", .open = waldo_open, .once = waldo_once, .close = waldo_side_end
};
static const struct exec_case waldo_case = {
    .name = "waldo", .open = waldo_open, .once = waldo_once, .close = waldo_side_end, COUNTED
};
static const struct exec_case waldo_one_case = { .name = "waldo_1", .once = waldo_once, COUNTED };
static const struct exec_case waldo_many_case = {
    .name = "waldo", .open = waldo_open, .once = waldo_many_once, .close = waldo_side_end, COUNTED
};
static const struct exec_case waldo_new_case = { .name = "waldo",
                                                 .open = waldo_new,
                                                 .once = waldo_once,
                                                 .after = waldo_again,
                                                 .close = waldo_side_end,
                                                 COUNTED };
static const struct exec_case libcurl_case = {
    .name = "libcurl", .open = libcurl_open, .once = floor_one, .close = floor_end, COUNTED
};
static const struct exec_case libcurl_many_case = {
    .name = "libcurl", .open = libcurl_open, .once = floor_sixteen, .close = floor_end, COUNTED
};

static const struct mode {
    const char *name;
    const struct exec_case *cases[4];
    struct bench_peer peer;
    long warmup;
} modes[] = {
    { "probe", { &probe_case }, { .once = "1\n" }, 0 },
    { "exec", { &waldo_case, &libcurl_case }, { .once = "1\n", .requests = requests }, WARMUP },
    { "many",
      { &waldo_many_case, &libcurl_many_case, &waldo_one_case },
      { .once = "16\n", .requests = requests },
      WARMUP },
    { "open", { &waldo_new_case }, { .once = "new\n", .after = "end\n", .requests = requests }, 1 },
};

static const struct mode *find_mode(const char *name)
{
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (strcmp(modes[i].name, name) == 0) {
            return &modes[i];
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const struct exec_case *cases[4 + BENCH_PEERS_MAX];
    const struct mode *mode = argc >= FIRST_PEER ? find_mode(argv[1]) : NULL;
    long rounds = mode != NULL ? strtol(argv[2], NULL, 10) : 0;
    int peer_count = argc >= FIRST_PEER ? (argc - FIRST_PEER) / 3 : 0;
    size_t count = 0;

    if (rounds <= 0 || peer_count > BENCH_PEERS_MAX) {
        fprintf(stderr, "usage: bench_cloud_latency probe|exec|many|open ROUNDS SANDBOX COUNT_URL "
                        "FOLDER [NAME PROGRAM SCRIPT]...\n");
        return 2;
    }
    sandbox = argv[3];
    count_url = argv[4];
    folder = argv[5];
    for (; mode->cases[count] != NULL; count++) {
        cases[count] = mode->cases[count];
    }
    for (int i = 0; i < peer_count; i++) {
        cases[count++] = bench_peer_case(i, argv + FIRST_PEER + 3 * i, &mode->peer);
    }
    return !bench_compare(cases, count, mode->warmup, rounds);
}

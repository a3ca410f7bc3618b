/*
 * What a sandbox of Docker costs: commands, files, new sandboxes, each through waldo and in the
 * other ways in turn.
 *
 *   bench_docker_latency MODE ROUNDS SOCKET IMAGE [NAME PROGRAM SCRIPT]...
 *
 * MODE: exec    `true` on the host, in a bubblewrap, through waldo, the bare Engine API and the
 *               docker command; and by each peer named, which gets SOCKET and a container as
 *               arguments, runs `true` for each line it reads, and answers with a line
 *       many    one command, 16 at once, and 16 execs of the API at once
 *       files   a file of 10 MB in and out
 *       open    a new sandbox to its first result
 *       pool    the same where a spare is ready, and one command more in it
 *
 * Prints one JSON object, microseconds by name: the median, and the end of the fastest tenth. Ends
 * what it started. DOCKER_HOST is for waldo and the docker command, and has to name SOCKET.
 */
#include "bench.h"
#include "docker_api.h"
#include "exec_case.h"
#include "peer.h"
#include "waldo_side.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARMUP = 3, MANY = 16, FILE_BYTES = 10000000, FIRST_PEER = 5 };

static const char *socket_path;
static const char *image;
static struct api *api;
static char container[API_NAME_SIZE];

/* ---- the host, and waldo on a sandbox that is open ---- */

/* What the image has as `true`. */
static bool host_once(void)
{
    static const char *const argv[] = { "true", NULL };

    return bench_spawn("/bin/busybox", argv);
}

static bool waldo_open(void)
{
    char name[512];

    snprintf(name, sizeof(name), "docker:%s", image);
    return waldo_side_begin(name) && waldo_side_exec(1);
}

static bool waldo_once(void)
{
    return waldo_side_exec(1);
}

static bool waldo_many_once(void)
{
    return waldo_side_exec(MANY);
}

static bool waldo_write_once(void)
{
    return waldo_side_write(FILE_BYTES);
}

static bool waldo_read_once(void)
{
    return waldo_side_read(FILE_BYTES);
}

/* ---- the bare API on a container of its own ---- */

static bool api_open(void)
{
    return api_create(api, container) && api_start(api, container);
}

static bool api_once(void)
{
    return api_exec_true(api, container);
}

static bool api_put_once(void)
{
    return api_put_file(api, container, FILE_BYTES);
}

static bool api_get_once(void)
{
    return api_get_file(api, container, FILE_BYTES);
}

static void api_close(void)
{
    api_remove(api, container);
}

/* Connections of their own, as a program would keep for this many at once. */
static struct api *many[MANY];

static bool api_many_open(void)
{
    bool good = true;

    for (int i = 0; i < MANY; i++) {
        many[i] = api_new(socket_path, image);
        good = good && many[i] != NULL;
    }
    return good;
}

static void *exec_one(void *argument)
{
    return api_exec_true(argument, container) ? argument : NULL;
}

static bool api_many_once(void)
{
    pthread_t threads[MANY];
    bool good = true;
    int started = 0;

    while (started < MANY &&
           pthread_create(&threads[started], NULL, exec_one, many[started]) == 0) {
        started++;
    }
    for (int i = 0; i < started; i++) {
        void *worked = NULL;

        pthread_join(threads[i], &worked);
        good = good && worked != NULL;
    }
    return good && started == MANY;
}

static void api_many_close(void)
{
    for (int i = 0; i < MANY; i++) {
        api_free(many[i]);
    }
}

static bool cli_once(void)
{
    const char *const argv[] = { "docker", "exec", container, "true", NULL };

    return bench_spawn("docker", argv);
}

/* ---- new ones ---- */

static bool new_waldo_open(void)
{
    char name[512];

    snprintf(name, sizeof(name), "docker:%s", image);
    return waldo_side_begin(name);
}

static void new_waldo_after(void)
{
    waldo_side_renew();
}

static bool pool_open(void)
{
    char name[512];

    snprintf(name, sizeof(name), "docker:%s,spares=1", image);
    return waldo_side_begin(name) && waldo_side_exec(1) && waldo_side_renew() && waldo_side_rest();
}

static void pool_after(void)
{
    waldo_side_renew();
    waldo_side_rest();
}

static bool new_api_once(void)
{
    return api_open() && api_once();
}

/* ---- the comparisons ---- */

static const struct exec_case host_case = { .name = "host", .once = host_once };
static const struct exec_case waldo_case = {
    .name = "waldo", .open = waldo_open, .once = waldo_once, .close = waldo_side_end
};
static const struct exec_case waldo_many_case = { .name = "waldo_16", .once = waldo_many_once };
static const struct exec_case waldo_write_case = { .name = "waldo_in",
                                                   .open = waldo_open,
                                                   .once = waldo_write_once };
static const struct exec_case waldo_read_case = { .name = "waldo_out",
                                                  .once = waldo_read_once,
                                                  .close = waldo_side_end };
static const struct exec_case api_case = { .name = "api", .once = api_once };
static const struct exec_case api_many_case = {
    .name = "api_16", .open = api_many_open, .once = api_many_once, .close = api_many_close
};
static const struct exec_case api_put_case = { .name = "api_in", .once = api_put_once };
static const struct exec_case api_get_case = { .name = "api_out", .once = api_get_once };
static const struct exec_case cli_case = { .name = "cli", .once = cli_once };
static const struct exec_case new_waldo_case = { .name = "waldo",
                                                 .open = new_waldo_open,
                                                 .once = waldo_once,
                                                 .after = new_waldo_after,
                                                 .close = waldo_side_end };
static const struct exec_case new_api_case = { .name = "api",
                                               .once = new_api_once,
                                               .after = api_close };
static const struct exec_case pool_case = { .name = "waldo_pool",
                                            .open = pool_open,
                                            .once = waldo_once };
static const struct exec_case pool_live_case = {
    .name = "waldo", .once = waldo_once, .after = pool_after, .close = waldo_side_end
};
static const struct mode {
    const char *name;
    const struct exec_case *cases[6];
    bool own_container; /* the API's cases make their own */
} modes[] = {
    { "exec", { &host_case, &exec_case_bwrap, &waldo_case, &api_case, &cli_case }, false },
    { "many", { &waldo_case, &waldo_many_case, &api_many_case }, false },
    { "files", { &waldo_write_case, &waldo_read_case, &api_put_case, &api_get_case }, false },
    { "open", { &new_waldo_case, &new_api_case }, true },
    { "pool", { &pool_case, &pool_live_case }, true },
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
    const struct exec_case *cases[8];
    const struct mode *mode = argc >= FIRST_PEER ? find_mode(argv[1]) : NULL;
    long rounds = mode != NULL ? strtol(argv[2], NULL, 10) : 0;
    size_t count = 0;
    int peer_count = argc >= FIRST_PEER ? (argc - FIRST_PEER) / 3 : 0;
    bool good;

    if (rounds <= 0 || peer_count > BENCH_PEERS_MAX) {
        fprintf(stderr, "usage: bench_docker_latency exec|many|files|open|pool ROUNDS SOCKET IMAGE "
                        "[NAME PROGRAM SCRIPT]...\n");
        return 2;
    }
    socket_path = argv[3];
    image = argv[4];
    for (; mode->cases[count] != NULL; count++) {
        cases[count] = mode->cases[count];
    }
    for (int i = 0; i < peer_count; i++) {
        struct bench_peer peer = { .arguments = { socket_path, container }, .once = "\n" };

        cases[count++] = bench_peer_case(i, argv + FIRST_PEER + 3 * i, &peer);
    }
    api = api_new(socket_path, image);
    good = api != NULL && (mode->own_container || api_open());
    good = good && bench_compare(cases, count, mode->own_container ? 1 : WARMUP, rounds);
    if (api != NULL && !mode->own_container) {
        api_close();
    }
    api_free(api);
    return !good;
}

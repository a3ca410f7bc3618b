#include "peer.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static struct peer {
    struct bench_peer is;
    char *const *named;
    pid_t process;
    int to;
    int from;
} peers[BENCH_PEERS_MAX];

static bool peer_open(struct peer *peer)
{
    const char *const argv[] = { peer->named[1], peer->named[2], peer->is.arguments[0],
                                 peer->is.arguments[1], NULL };
    posix_spawn_file_actions_t actions;
    int in[2];
    int out[2];
    int error;

    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) {
        return false;
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    error = posix_spawnp(&peer->process, argv[0], &actions, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    peer->to = in[1];
    peer->from = out[0];
    return error == 0;
}

static bool peer_say(const struct peer *peer, const char *line)
{
    char answer[256] = "";
    ssize_t len = (ssize_t)strlen(line);

    if (write(peer->to, line, (size_t)len) != len ||
        read(peer->from, answer, sizeof(answer) - 1) <= 0 || strcmp(answer, "ok\n") != 0) {
        fprintf(stderr, "%s: %s\n", peer->named[0], answer);
        return false;
    }
    return true;
}

static void peer_close(struct peer *peer)
{
    close(peer->to);
    close(peer->from);
    waitpid(peer->process, NULL, 0);
}

static double peer_cpu_us(const struct peer *peer)
{
    struct timespec used = { 0 };
    clockid_t clock;

    if (clock_getcpuclockid(peer->process, &clock) == 0) {
        clock_gettime(clock, &used);
    }
    return (double)used.tv_sec * 1e6 + (double)used.tv_nsec / 1e3;
}

/* A case has no argument to tell its peer by. */
#define CALLBACKS(n)                                                                               \
    static bool open_##n(void)                                                                     \
    {                                                                                              \
        return peer_open(&peers[n]);                                                               \
    }                                                                                              \
    static bool once_##n(void)                                                                     \
    {                                                                                              \
        return peer_say(&peers[n], peers[n].is.once);                                              \
    }                                                                                              \
    static void after_##n(void)                                                                    \
    {                                                                                              \
        peer_say(&peers[n], peers[n].is.after);                                                    \
    }                                                                                              \
    static void close_##n(void)                                                                    \
    {                                                                                              \
        peer_close(&peers[n]);                                                                     \
    }                                                                                              \
    static double cpu_us_##n(void)                                                                 \
    {                                                                                              \
        return peer_cpu_us(&peers[n]);                                                             \
    }

#define CASE(n)                                                                                    \
    {                                                                                              \
        .open = open_##n, .once = once_##n, .after = after_##n, .close = close_##n,                \
        .cpu_us = cpu_us_##n                                                                       \
    }

CALLBACKS(0)
CALLBACKS(1)

static struct exec_case cases[BENCH_PEERS_MAX] = { CASE(0), CASE(1) };

const struct exec_case *bench_peer_case(int index, char *const *named,
                                        const struct bench_peer *peer)
{
    peers[index].is = *peer;
    peers[index].named = named;
    cases[index].name = named[0];
    cases[index].requests = peer->requests;
    if (peer->after == NULL) {
        cases[index].after = NULL;
    }
    return &cases[index];
}

/*
 * The time from starting a program to its first request byte.
 *
 *   bench_startup ROUNDS NAME PROGRAM [ARGUMENT...] [-- NAME PROGRAM [ARGUMENT...]]...
 *
 * Listens on loopback, puts the port in place of the word PORT, starts the programs in turn and
 * ends each at its first byte. Prints one JSON object: the medians in microseconds by name.
 */
#include "bench.h"

#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { PROGRAMS_MAX = 16, WAIT_MS = 60000 };

struct program {
    const char *name;
    char **argv; /* borrowed from main's, ended by NULL */
    double *samples;
};

static int listen_loopback(long *ret_port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr = { .s_addr = htonl(INADDR_LOOPBACK) } };
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(fd, 16) != 0 || getsockname(fd, (struct sockaddr *)&address, &length) != 0) {
        perror("listen");
        exit(1);
    }
    *ret_port = ntohs(address.sin_port);
    return fd;
}

/* Splits main's arguments at each "--"; returns how many programs there are. */
static size_t split(char **argv, struct program *programs, char *port)
{
    size_t count = 0;

    while (*argv != NULL && count < PROGRAMS_MAX) {
        programs[count].name = *argv++;
        programs[count].argv = argv;
        while (*argv != NULL && strcmp(*argv, "--") != 0) {
            if (strcmp(*argv, "PORT") == 0) {
                *argv = port;
            }
            argv++;
        }
        if (*argv != NULL) {
            *argv++ = NULL;
        }
        count++;
    }
    return count;
}

static bool readable(int fd)
{
    struct pollfd poller = { .fd = fd, .events = POLLIN };

    return poll(&poller, 1, WAIT_MS) == 1;
}

/* One start: microseconds until a byte can be read, negative when none comes. */
static double one_start(int listener, const struct program *program)
{
    posix_spawn_file_actions_t actions;
    double start;
    double taken = -1;
    pid_t child;
    char byte;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", 1, 0);
    start = bench_wall_us();
    if (posix_spawn(&child, program->argv[0], &actions, NULL, program->argv, environ) == 0) {
        if (readable(listener)) {
            int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

            if (fd >= 0 && readable(fd) && recv(fd, &byte, 1, MSG_PEEK) == 1) {
                taken = bench_wall_us() - start;
            }
            kill(child, SIGKILL);
            close(fd);
        } else {
            kill(child, SIGKILL);
        }
        waitpid(child, NULL, 0);
    }
    posix_spawn_file_actions_destroy(&actions);
    return taken;
}

static int compare(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;

    return difference < 0 ? -1 : difference > 0;
}

int main(int argc, char **argv)
{
    struct program programs[PROGRAMS_MAX];
    char port_text[16];
    long port = 0;
    size_t rounds = argc < 4 ? 0 : strtoul(argv[1], NULL, 10);

    if (rounds == 0) {
        fprintf(stderr, "usage: bench_startup ROUNDS NAME PROGRAM [ARGUMENT...] [-- ...]\n");
        return 2;
    }

    int listener = listen_loopback(&port);

    snprintf(port_text, sizeof(port_text), "%ld", port);

    size_t count = split(argv + 2, programs, port_text);

    for (size_t i = 0; i < count; i++) {
        programs[i].samples = calloc(rounds, sizeof(double));
        if (programs[i].samples == NULL || one_start(listener, &programs[i]) < 0) {
            fprintf(stderr, "%s: no byte came from it\n", programs[i].name);
            return 1;
        }
    }
    for (size_t round = 0; round < rounds; round++) {
        for (size_t i = 0; i < count; i++) {
            programs[i].samples[round] = one_start(listener, &programs[i]);
        }
    }
    for (size_t i = 0; i < count; i++) {
        qsort(programs[i].samples, rounds, sizeof(double), compare);
        printf("%s\"%s\":%.1f", i == 0 ? "{" : ",", programs[i].name,
               programs[i].samples[rounds / 2]);
        free(programs[i].samples);
    }
    puts("}");
    return 0;
}

#include "bench.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct option_row {
    const char *name;
    size_t offset;
    bool text;
};

#define NUMBER(field)                                                                              \
    {                                                                                              \
        "--" #field, offsetof(struct bench_args, field), false                                     \
    }
#define TEXT(field)                                                                                \
    {                                                                                              \
        "--" #field, offsetof(struct bench_args, field), true                                      \
    }

static const struct option_row option_rows[] = {
    TEXT(mode),
    TEXT(model),
    TEXT(api),
    NUMBER(port),
    NUMBER(runs),
    NUMBER(warmup),
    NUMBER(turns),
    NUMBER(concurrency),
    NUMBER(hold),
    NUMBER(deltas),
    { "--delta-bytes", offsetof(struct bench_args, delta_bytes), false },
    { "--slice-us", offsetof(struct bench_args, slice_us), false },
};

static bool set_option(struct bench_args *args, const char *name, const char *value)
{
    for (size_t i = 0; i < sizeof(option_rows) / sizeof(option_rows[0]); i++) {
        char *field = (char *)args + option_rows[i].offset;

        if (strcmp(option_rows[i].name, name) != 0) {
            continue;
        }
        if (option_rows[i].text) {
            memcpy(field, &value, sizeof(value));
            return true;
        }

        char *end = NULL;
        long number = strtol(value, &end, 10);

        if (end == value || *end != '\0' || number < 0) {
            fprintf(stderr, "%s wants a number, not \"%s\"\n", name, value);
            return false;
        }
        memcpy(field, &number, sizeof(number));
        return true;
    }
    fprintf(stderr, "unknown option %s\n", name);
    return false;
}

bool bench_parse(int argc, char **argv, struct bench_args *ret_args)
{
    struct bench_args args = {
        .mode = "turns",
        .model = "bench-tools",
        .api = "chat",
        .runs = 1,
        .turns = 50,
        .concurrency = 1,
        .deltas = 40,
        .delta_bytes = 5,
    };

    for (int i = 1; i < argc; i += 2) {
        if (i + 1 >= argc) {
            fprintf(stderr, "%s wants a value\n", argv[i]);
            return false;
        }
        if (!set_option(&args, argv[i], argv[i + 1])) {
            return false;
        }
    }
    if (args.port == 0 || args.port > 65535 || args.concurrency == 0 || args.turns == 0) {
        fprintf(stderr, "wants --port, and --turns and --concurrency above 0\n");
        return false;
    }
    *ret_args = args;
    return true;
}

static double clock_us(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

double bench_wall_us(void)
{
    return clock_us(CLOCK_MONOTONIC);
}

double bench_thread_cpu_us(void)
{
    return clock_us(CLOCK_THREAD_CPUTIME_ID);
}

struct bench_mark bench_now(void)
{
    struct rusage used;

    getrusage(RUSAGE_SELF, &used);
    return (struct bench_mark){
        .wall_us = bench_wall_us(),
        .cpu_us = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e6 +
                  (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec),
    };
}

struct bench_mark bench_since(struct bench_mark start)
{
    struct bench_mark now = bench_now();

    return (struct bench_mark){ now.wall_us - start.wall_us, now.cpu_us - start.cpu_us };
}

static long status_field(const char *name)
{
    FILE *file = fopen("/proc/self/status", "re");
    char line[256];
    long value = 0;

    if (file == NULL) {
        return 0;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, name, strlen(name)) == 0) {
            value = strtol(line + strlen(name), NULL, 10);
            break;
        }
    }
    fclose(file);
    return value;
}

long bench_rss_kib(void)
{
    return status_field("VmRSS:");
}

long bench_peak_kib(void)
{
    return status_field("VmHWM:");
}

void bench_many_files(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int bench_connect(long port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((in_port_t)port),
        .sin_addr = { .s_addr = htonl(INADDR_LOOPBACK) },
    };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

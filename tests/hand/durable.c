#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "durable.h"

char address[64];
pid_t hand;
int is_root;

void start_hand(const char *lease)
{
    static int count;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    snprintf(address, sizeof address, "waldo-test-%d-%d", (int)getpid(), ++count);
    hand = client_exec("durable", address, lease, null);
    close(null);
}

void attach_first(struct client *client)
{
    client_attach(client, address);
    client->next_id = 1;
}

/* A later session: its ids are above those of commands that were kept. */
void attach_next(struct client *client)
{
    client_attach(client, address);
    client->next_id = 100;
}

int open_hand(void **state)
{
    (void)state;
    start_hand(LONG_LEASE);
    return 0;
}

/* Ends the hand as SIGTERM does; emulated it may not be far enough yet to take that. */
int close_hand(void **state)
{
    (void)state;
    if (client_emulated()) {
        kill(hand, SIGKILL);
        client_status(hand);
        return 0;
    }
    kill(hand, SIGTERM);
    assert_int_equal(client_status(hand), 0);
    return 0;
}

static int copy_file(const char *source, const char *path)
{
    static char bytes[65536];
    FILE *from = fopen(source, "rb");
    FILE *to = from != NULL ? fopen(path, "wb") : NULL;
    size_t n;

    if (to == NULL) {
        return 0;
    }
    while ((n = fread(bytes, 1, sizeof bytes, from)) > 0) {
        fwrite(bytes, 1, n, to);
    }
    fclose(from);
    return fclose(to) == 0 && chmod(path, 0755) == 0;
}

/*
 * The program where other users find it, for the time of the tests; emulated: what the program
 * runs, beside it, or NULL.
 */
static int copy_program(char folder[], char path[], char other[], size_t room, const char *emulated)
{
    if (mkdtemp(folder) == NULL || chmod(folder, 0755) != 0) {
        return 0;
    }
    snprintf(path, room, "%s/waldo-hand", folder);
    snprintf(other, room, "%s/emulated", folder);
    if (!copy_file(client_program, path) || (emulated != NULL && !copy_file(emulated, other))) {
        return 0;
    }
    client_program = path;
    return 1;
}

/* Without root: as root of a user namespace of our own. */
static int become_root(void)
{
    char map[64];
    int fd, good;

    is_root = geteuid() == 0;
    if (is_root) {
        return 1;
    }
    snprintf(map, sizeof map, "0 %d 1", (int)geteuid());
    if (unshare(CLONE_NEWUSER) != 0) {
        return 0;
    }
    fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
    good = fd >= 0 && write(fd, map, strlen(map)) > 0;
    close(fd);
    return good;
}

/* Reads until the stream's end. */
void read_to_end(struct client *client)
{
    int got;

    while ((got = client_read(client, 60000)) > 0) {
    }
    assert_int_equal(got, 0);
}

waldo__hand_run kept(const char *label)
{
    waldo__hand_run run = WALDO__HAND_RUN_INIT;

    run.flags = WALDO_HAND_RUN_KEEP | WALDO_HAND_RUN_MERGE | WALDO_HAND_RUN_STDIN;
    run.tail[0] = 65536;
    run.label = waldo__str(label);
    return run;
}

int run_durable_tests(int argc, char **argv, const struct CMUnitTest *tests, size_t count)
{
    char folder[] = "/tmp/waldo-durable-XXXXXX", path[64], other[64];
    int failed;

    client_program = argc > 1 ? argv[1] : "waldo-hand";
    if (!become_root()) {
        fputs("skipped: neither root nor a user namespace, and only root may attach\n", stderr);
        return 77;
    }
    if (!copy_program(folder, path, other, sizeof path, argc > 2 ? argv[2] : NULL)) {
        fputs("the program cannot be copied\n", stderr);
        return 1;
    }
    failed = _cmocka_run_group_tests("durable", tests, count, NULL, NULL);
    unlink(path);
    unlink(other);
    rmdir(folder);
    return failed != 0;
}

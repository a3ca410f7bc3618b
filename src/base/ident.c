#include "base/ident.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { STAT_TEXT = 1024, PID_LARGEST = 4194304, STATE_FIELD = 1, START_FIELD = 20 };

/* In memory that the kernel empties for a forked child; NULL: not asked for so far. */
static _Atomic(atomic_int *) known_pid;
static atomic_int nowhere; /* where there is no such memory: stays 0 */

static atomic_int *make_place(void)
{
    atomic_int *place =
        mmap(NULL, sizeof *place, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    atomic_int *other = NULL;

    if (place == MAP_FAILED) {
        place = &nowhere;
    } else if (madvise(place, sizeof *place, MADV_WIPEONFORK) != 0) {
        munmap(place, sizeof *place);
        place = &nowhere;
    }
    if (!atomic_compare_exchange_strong(&known_pid, &other, place)) { /* a thread was first */
        if (place != &nowhere) {
            munmap(place, sizeof *place);
        }
        place = other;
    }
    return place;
}

pid_t waldo__process_id(void)
{
    atomic_int *place = atomic_load_explicit(&known_pid, memory_order_acquire);
    int pid;

    if (place == NULL) {
        place = make_place();
    }
    pid = atomic_load_explicit(place, memory_order_relaxed);
    if (pid == 0) {
        pid = getpid();
        if (place != &nowhere) {
            atomic_store_explicit(place, pid, memory_order_relaxed);
        }
    }
    return pid;
}

/* A file of the kernel's, which gives all of it at once. */
static size_t read_small(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, text, size - 1) : 0;

    if (fd >= 0) {
        close(fd);
    }
    len = len > 0 ? len : 0;
    text[len] = '\0';
    return (size_t)len;
}

/* Field of a process's stat behind the name in brackets, which may hold anything (proc(5)). */
static waldo_str stat_field(const char *text, size_t len, int number)
{
    waldo_str field = { "", 0 };
    waldo_str rest;

    while (len > 0 && text[len - 1] != ')') {
        len--;
    }
    rest = waldo__str(text + len + (text[len] == ' '));
    for (int i = 0; i < number; i++) {
        if (!waldo__str_split(&rest, ' ', &field)) {
            return (waldo_str){ "", 0 };
        }
    }
    return field;
}

/*
 * The machine's id is not to be given away (machine-id(5)): 64 bits of FNV-1a tell two machines
 * apart, and half of what went in is lost. Empty when there is none.
 */
static void put_machine(char *out, size_t size)
{
    char id[64];
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    waldo_str text;

    read_small("/etc/machine-id", id, sizeof id);
    text = waldo__str_trim(waldo__str(id));
    for (size_t i = 0; i < text.len; i++) {
        hash = (hash ^ (unsigned char)text.ptr[i]) * UINT64_C(0x100000001b3);
    }
    out[0] = '\0';
    if (text.len > 0) {
        snprintf(out, size, "%016llx", (unsigned long long)hash);
    }
}

void waldo__ident_self(waldo__ident *ret_ident)
{
    char boot[64];
    char text[STAT_TEXT];
    char machine[20];
    struct stat space = { .st_ino = 0 };
    size_t len = read_small("/proc/self/stat", text, sizeof text);
    waldo_str start = stat_field(text, len, START_FIELD);
    waldo_str trimmed;

    read_small("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    trimmed = waldo__str_trim(waldo__str(boot));
    put_machine(machine, sizeof machine);
    if (stat("/proc/self/ns/pid", &space) != 0) {
        space.st_ino = 0;
    }
    snprintf(ret_ident->pid, sizeof ret_ident->pid, "%d", (int)getpid());
    snprintf(ret_ident->user, sizeof ret_ident->user, "%u", (unsigned)getuid());
    snprintf(ret_ident->start, sizeof ret_ident->start, "%.*s/%.*s", (int)trimmed.len, trimmed.ptr,
             (int)(start.len < 24 ? start.len : 24), start.ptr);
    snprintf(ret_ident->host, sizeof ret_ident->host, "%s/%llu", machine,
             (unsigned long long)space.st_ino);
}

/* Both halves of "A/B". */
static void halves(waldo_str text, waldo_str *first, waldo_str *second)
{
    size_t at = waldo__str_find(text, '/');

    *first = waldo__slice(text.ptr, at);
    *second = at < text.len ? waldo__slice(text.ptr + at + 1, text.len - at - 1) : WALDO__S("");
}

static int same(waldo_str a, waldo_str b)
{
    return a.len > 0 && waldo__str_eq(a, b);
}

/* Of a process namespace and boot that are ours. */
static int process_alive(int64_t pid, waldo_str ticks)
{
    char path[48];
    char text[STAT_TEXT];
    waldo_str state;
    size_t len;

    if (kill((pid_t)pid, 0) != 0 && errno == ESRCH) {
        return 0;
    }
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    len = read_small(path, text, sizeof text);
    if (len == 0) {
        /* Hidden (hidepid of proc(5)), or it ended just now. */
        return kill((pid_t)pid, 0) != 0 && errno == ESRCH ? 0 : -1;
    }
    state = stat_field(text, len, STATE_FIELD);
    if (waldo__str_is(state, "Z") || waldo__str_is(state, "X")) {
        return 0;
    }
    return waldo__str_eq(stat_field(text, len, START_FIELD), ticks);
}

int waldo__ident_alive(waldo_str pid, waldo_str start, waldo_str host)
{
    waldo__ident self;
    waldo_str boot, ticks, machine, space;
    waldo_str own_boot, own_ticks, own_machine, own_space;
    int64_t number;

    waldo__ident_self(&self);
    halves(start, &boot, &ticks);
    halves(host, &machine, &space);
    halves(waldo__str(self.start), &own_boot, &own_ticks);
    halves(waldo__str(self.host), &own_machine, &own_space);
    if (!waldo__str_int(pid, &number) || number <= 0 || number > PID_LARGEST || boot.len == 0 ||
        ticks.len == 0) {
        return -1;
    }
    if (!same(boot, own_boot)) {
        return same(machine, own_machine) ? 0 : -1; /* it was restarted since, or is another */
    }
    return same(space, own_space) ? process_alive(number, ticks) : -1;
}

int waldo__ident_is_mine(waldo_str user, waldo_str start, waldo_str host)
{
    waldo__ident self;
    waldo_str boot, machine, rest, own_boot, own_machine;

    waldo__ident_self(&self);
    halves(start, &boot, &rest);
    halves(host, &machine, &rest);
    halves(waldo__str(self.start), &own_boot, &rest);
    halves(waldo__str(self.host), &own_machine, &rest);
    if (user.len == 0) {
        return -1;
    }
    return waldo__str_is(user, self.user) && (same(boot, own_boot) || same(machine, own_machine));
}

/*
 * Small wrappers of Linux calls that libc does not have or has in an unfit form: its forms of many
 * carry fall-backs for kernels of long ago, and care for threads, that cost more bytes here than
 * the work itself.
 */
#ifndef WALDO_HAND_SYS_H
#define WALDO_HAND_SYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct stat;

uint64_t now_ns(void);
uint64_t now_ms(void);

/* Both ends close-on-exec and blocking. */
int make_pipe(int fds[2]);
void set_nonblock(int fd);
void close_fd(int *fd);
/* fcntl */
int control_fd(int fd, int command, long value);
/* dup3; the two must differ. */
int control_device(int fd, unsigned long command, long value);
int copy_fd(int from, int to, int flags);
/* Connected, with message borders, close-on-exec. */
int make_socket_pair(int fds[2]);
/* Closes all descriptors from first to last. */
void close_between(unsigned first, unsigned last);
/* Makes 0, 1 and 2 open, so that no later descriptor gets such a number. */
void open_standard_fds(void);

/* Is there something to open terminals with? */
bool have_pty(void);
/* Opens a terminal of a size: [0] the side of a user, [1] that of programs. */
bool make_pty(int fds[2], uint16_t rows, uint16_t columns);
void resize_pty(int fd, uint16_t rows, uint16_t columns);
/* Is there something to read now? */
bool is_readable(int fd);

/* Fresh zero pages that forked children do not get; NULL without memory. */
void *map_pages(size_t size);
void unmap_pages(void *pages, size_t size);

/* fork for a program of one thread. */
pid_t fork_alone(void);
/* prctl */
int control_process(int option, unsigned long value);

/* openat, close-on-exec. */
int open_at(int dirfd, const char *path, int flags, mode_t mode);
/* The same from the current directory; new files get mode 0644. */
int open_path(const char *path, int flags);
int stat_at(int dirfd, const char *path, int flags, struct stat *ret_st);
int stat_fd(int fd, struct stat *ret_st);
int chmod_at(int dirfd, const char *path, mode_t mode);
int chmod_fd(int fd, mode_t mode);
ssize_t read_link(int dirfd, const char *path, char *buf, size_t size);
/* openat2 that stays below dirfd and follows no magic links. */
int open_beneath(int dirfd, const char *path, int flags, mode_t mode);
bool have_openat2(void);
/*
 * From here on only this program finds openat2: what it starts gets ENOSYS. A filter around the
 * sandbox cannot look at the mode of new files in that call.
 */
bool filter_openat2(void);
int rename_noreplace(int from_dir, const char *from, int to_dir, const char *to);
int swap_names(int dir, const char *one, const char *other);
ssize_t read_dents(int fd, void *buf, size_t size);
int make_memory_file(const char *name);

/* Bytes of text before the first stop, or all of them. */
size_t length_until(const char *text, char stop);
bool has_slash(const char *text);

struct dent {
    uint64_t ino;
    int64_t off;
    uint16_t reclen;
    uint8_t type;
    char name[];
};

/* Default signal actions, everything blocked; a few end a wait by wait_fds. May be repeated. */
void signals_init(bool is_server);
/* For a forked process that gave up its descriptors: watches anew, through this one. */
void signals_move(int fd);
bool signal_end_seen(void);

struct pollfd;
#define WAIT_FDS_MAX 1100u
/* poll that SIGCHLD (and in the server SIGTERM, SIGINT, SIGHUP) ends without a race, as with 0. */
int wait_fds(struct pollfd *fds, size_t count, int64_t timeout_ms);
/* In the child before exec: an empty mask. */
void signals_unblock(void);

#endif

#define _GNU_SOURCE
/*
 * One request within one run of this program, its frames as lines of base64 that no provider and no
 * image's chatter can spoil; and the same again from a record, while it grows or later.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "server.h"
#include "sys.h"
#include "tree.h"

#define NONCE_MAX  64u
#define LINE_BYTES 3072u /* of the frames in one line, a multiple of 3 */
#define FOLLOW_MS  20

bool is_one_shot;

static const char digits[64] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char *nonce;
static int record = -1;
static bool has_record, silent; /* silent: the output broke, but the record goes on */

/* The value of a digit; 64: it is none. */
static uint32_t value_of(uint8_t digit)
{
    uint32_t value = 0;

    while (value < 64 && digits[value] != digit) {
        value++;
    }
    return value;
}

ssize_t one_shot_decode(uint8_t *bytes, size_t len)
{
    static uint32_t bits, count;
    size_t used = 0;

    for (size_t i = 0; i < len; i++) {
        uint32_t value = value_of(bytes[i]);

        if (value < 64) {
            bits = bits << 6 | value;
            count += 6;
            if (count >= 8) {
                count -= 8;
                bytes[used++] = (uint8_t)(bits >> count);
            }
        } else if (bytes[i] == '=') {
            count = 0;
        } else if (bytes[i] > ' ') {
            return -1;
        }
    }
    return (ssize_t)used;
}

/* Writes all of it, also to a descriptor that others have made non-blocking. */
static bool put_all(int fd, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;

    while (len > 0) {
        ssize_t n = write(fd, at, len);

        if (n > 0) {
            at += n;
            len -= (size_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            struct pollfd one = { .fd = fd, .events = POLLOUT };

            wait_fds(&one, 1, -1);
        } else if (n == 0 || errno != EINTR) {
            return false;
        }
    }
    return true;
}

/* The line that marks the beginning, or with " end" the end. */
static bool put_mark(const char *rest)
{
    return put_all(STDOUT_FILENO, nonce, strlen(nonce)) &&
           put_all(STDOUT_FILENO, rest, strlen(rest));
}

/* Prints bytes as lines, each complete by itself. */
static bool put_lines(const uint8_t *bytes, size_t len)
{
    static char line[LINE_BYTES / 3 * 4 + 1];
    bool good = true;

    while (good && len > 0) {
        uint32_t bits = 0, count = 0;
        size_t used = 0;

        for (size_t n = LINE_BYTES; n > 0 && len > 0; n--, len--) {
            bits = bits << 8 | *bytes++;
            for (count += 8; count >= 6; count -= 6) {
                line[used++] = digits[bits >> (count - 6) & 63];
            }
        }
        if (count > 0) {
            line[used++] = digits[bits << (6 - count) & 63];
        }
        while (used % 4 != 0) {
            line[used++] = '=';
        }
        line[used++] = '\n';
        good = put_all(STDOUT_FILENO, line, used);
    }
    return good;
}

bool one_shot_minds_output(void)
{
    return !has_record;
}

bool one_shot_put(const uint8_t *bytes, size_t len)
{
    if (record >= 0 && !put_all(record, bytes, len)) {
        close_fd(&record);
    }
    silent = silent || !put_lines(bytes, len);
    return !silent || has_record;
}

static bool take_nonce(const char *text)
{
    size_t len = strlen(text);

    nonce = text;
    open_standard_fds();
    return len > 0 && len <= NONCE_MAX;
}

/* Makes the record and marks it as one whose writer lives. */
static bool open_record(const char *path)
{
    struct flock lock = { .l_type = F_WRLCK };

    has_record = true;
    record = open_at(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    return record >= 0 && control_fd(record, F_SETLK, (long)&lock) == 0;
}

/* Makes the argument stdin. */
static bool read_argument(const char *text)
{
    int fd = make_memory_file("request");

    return fd >= 0 && put_all(fd, text, strlen(text)) && lseek(fd, 0, SEEK_SET) == 0 &&
           copy_fd(fd, STDIN_FILENO, 0) == 0;
}

int one_shot_main(int count, char **args)
{
    int status;

    if (!take_nonce(args[0]) || (strcmp(args[1], "-") != 0 && !read_argument(args[1]))) {
        return WALDO_HAND_STATUS_USAGE;
    }
    if (count == 3 && !open_record(args[2])) {
        return WALDO_HAND_STATUS_ABSENT;
    }
    signals_init(true); /* a broken output is no signal from here on */
    silent = !put_mark("\n");
    is_one_shot = true;
    status = server_main(NULL);
    if (!silent) {
        put_mark(" end\n");
    }
    return status;
}

int read_main(char **args)
{
    static uint8_t bytes[LINE_BYTES];
    const char *at = args[2];
    off_t offset = next_number(&at);
    struct pollfd out = { .fd = STDOUT_FILENO };
    bool lives = true;
    int fd;

    if (!take_nonce(args[0]) || at == args[2] || *at != '\0') {
        return WALDO_HAND_STATUS_USAGE;
    }
    fd = open_path(args[1], O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0) {
        return WALDO_HAND_STATUS_ABSENT;
    }
    put_mark("\n");
    while (lives) {
        struct flock lock = { .l_type = F_WRLCK };
        ssize_t n;

        /* First this, so that nothing can be written after the last look at the file. */
        lives = control_fd(fd, F_GETLK, (long)&lock) == 0 && lock.l_type != F_UNLCK;
        while ((n = pread(fd, bytes, sizeof bytes, offset)) > 0) {
            offset += n;
            if (!put_lines(bytes, (size_t)n)) {
                return WALDO_HAND_STATUS_OUTPUT;
            }
        }
        if (lives && wait_fds(&out, 1, FOLLOW_MS) > 0) {
            return WALDO_HAND_STATUS_OUTPUT;
        }
    }
    return put_mark(" end\n") ? WALDO_HAND_STATUS_OK : WALDO_HAND_STATUS_OUTPUT;
}

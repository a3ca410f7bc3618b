/* Lines of standard input. While one is awaited, the runtime goes on and a signal is heard. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <termios.h>
#include <unistd.h>

#include "cli.h"

enum { BLOCK = 4096, LINE_MAX_BYTES = 16 * 1024 * 1024 };

static struct {
    char *data;
    size_t len;
    size_t cap;
    size_t used; /* bytes of the line given out last */
    int at_end;
} input;

int has_terminal(void)
{
    return isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

void input_discard(void)
{
    input.len = input.used = 0;
    if (isatty(STDIN_FILENO)) {
        tcflush(STDIN_FILENO, TCIFLUSH);
    }
}

/* 0: too long, or no memory. */
static int read_more(void)
{
    ssize_t got;

    if (input.cap - input.len < BLOCK) {
        size_t cap = input.cap == 0 ? 4 * BLOCK : input.cap * 2;
        char *data = cap <= LINE_MAX_BYTES ? realloc(input.data, cap) : NULL;

        if (data == NULL) {
            complain("a line of standard input is longer than %d bytes", LINE_MAX_BYTES / 2);
            return 0;
        }
        input.data = data;
        input.cap = cap;
    }
    got = read(STDIN_FILENO, input.data + input.len, BLOCK);
    if (got > 0) {
        input.len += (size_t)got;
    } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
        input.at_end = 1;
    }
    return 1;
}

/* 1 when a line, or the rest before the end, is there. */
static int take_line(waldo_str *ret_line)
{
    char *end;
    size_t len;

    memmove(input.data, input.data + input.used, input.len - input.used);
    input.len -= input.used;
    input.used = 0;
    end = memchr(input.data, '\n', input.len);
    if (end == NULL && (!input.at_end || input.len == 0)) {
        return 0;
    }
    len = end != NULL ? (size_t)(end - input.data) : input.len;
    input.used = end != NULL ? len + 1 : len;
    if (len > 0 && input.data[len - 1] == '\r') {
        len--;
    }
    *ret_line = (waldo_str){ input.data, len };
    return 1;
}

line_end input_line(waldo_runtime *rt, waldo_str *ret_line)
{
    while (!was_interrupted()) {
        struct pollfd fds[] = { { STDIN_FILENO, POLLIN, 0 },
                                { waldo_runtime_fd(rt), POLLIN, 0 },
                                { stop_fd(), POLLIN, 0 } };

        if (input.data != NULL && take_line(ret_line)) {
            return LINE_READ;
        }
        if (input.at_end) {
            input.at_end = 0; /* a terminal can be read again behind its end */
            return LINE_EOF;
        }
        if (poll(fds, 3, -1) < 0) {
            continue;
        }
        if (fds[1].revents != 0) {
            waldo_runtime_dispatch(rt, 0);
        }
        if (fds[0].revents != 0 && !read_more()) {
            return LINE_FAILED;
        }
    }
    return LINE_STOPPED;
}

line_end input_ask(waldo_runtime *rt, const char *question, waldo_str *ret_line)
{
    line_end end;

    input_discard(); /* what was typed before the question is no answer to it */
    put_safe(stderr, (waldo_str){ question, strlen(question) });
    end = input_line(rt, ret_line);
    if (end != LINE_READ) {
        fputc('\n', stderr);
    }
    return end;
}

int answer_is(waldo_str line, const char *letter, const char *word)
{
    return (line.len == strlen(letter) && strncasecmp(line.ptr, letter, line.len) == 0) ||
           (line.len == strlen(word) && strncasecmp(line.ptr, word, line.len) == 0);
}

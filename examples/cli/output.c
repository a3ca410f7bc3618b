/* Standard output: every byte arrives, or the failure is known. */
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "cli.h"

static int first_error;

int write_fully(int fd, waldo_str bytes)
{
    while (bytes.len > 0) {
        ssize_t put = write(fd, bytes.ptr, bytes.len);

        if (put >= 0) {
            bytes.ptr += put;
            bytes.len -= (size_t)put;
        } else if (errno == EAGAIN) { /* whoever shares the descriptor made it so */
            poll(&(struct pollfd){ fd, POLLOUT, 0 }, 1, -1);
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

void output_write(waldo_str bytes)
{
    if (first_error == 0) {
        first_error = write_fully(STDOUT_FILENO, bytes);
    }
}

int output_error(void)
{
    return first_error;
}

int output_finish(int code, int code_failed)
{
    if (fflush(stdout) != 0 && first_error == 0) {
        first_error = errno;
    }
    if (first_error == 0) {
        return code;
    }
    if (first_error != EPIPE) { /* who closed the pipe has read enough */
        errno = first_error;
        complain("standard output: %m");
    }
    return code == EXIT_DONE ? code_failed : code;
}

/* The terminal at standard input, when what is typed goes to a terminal elsewhere. */
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "cli.h"

static struct termios before;
static atomic_int is_raw;

int terminal_make_raw(void)
{
    struct termios raw;

    if (tcgetattr(STDIN_FILENO, &before) != 0) {
        return 0;
    }
    raw = before;
    cfmakeraw(&raw);
    if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) != 0) {
        return 0;
    }
    atomic_store(&is_raw, 1);
    return 1;
}

void terminal_restore(void)
{
    if (atomic_exchange(&is_raw, 0)) {
        tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
    }
}

int terminal_size(uint32_t *ret_rows, uint32_t *ret_columns)
{
    struct winsize size;

    if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) {
        return 0;
    }
    *ret_rows = size.ws_row;
    *ret_columns = size.ws_col;
    return 1;
}

/* The job parent: one small process per command, the subreaper of all that the command starts. */
#ifndef WALDO_HAND_PARENT_H
#define WALDO_HAND_PARENT_H

#include <stdbool.h>

#include "wire.h"

enum order_kind { ORDER_SIGNAL = 1, ORDER_CANCEL = 2 };

/* Server to job parent, one packet. */
struct order {
    enum order_kind kind;
    int sig;
    int scope;
    uint32_t grace_ms;
};

enum report_kind { REPORT_STARTED = 1, REPORT_ERROR = 2, REPORT_EXIT = 3 };

/* Job parent to server, one packet. */
struct report {
    enum report_kind kind;
    int32_t err;
    uint8_t phase;
    uint32_t pid;
    bool alone;            /* EXIT: no process of the command has its outputs any more */
    struct exit_info exit; /* without the counts of output */
};

/* A RUN request, its strings borrowed from the frame. */
struct run {
    uint32_t flags, timeout_ms, grace_ms;
    uint64_t head[2], capture_max, credit;
    uint32_t tail[2];
    uint16_t rows, columns;
    bool has_credit, has_size;
    struct field script, cwd, capture_path, label;
    size_t args, envs;
    const struct frame *frame;
};

/* out and err may be -1: the same as the one before. */
struct job_fds {
    int in, out, err, control;
};

/* Runs in the forked child; never returns. */
_Noreturn void parent_main(const struct run *run, const struct job_fds *fds);

#endif

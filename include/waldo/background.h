/**
 * @file
 * Commands that go on while nobody waits for them.
 *
 * Each has a number within its machine; by it they are read, written to, signalled and cancelled.
 * One that ended keeps its result and the last of its output until it is forgotten or newer ones
 * push it out. The output stays in the sandbox and comes when it is asked for: one that prints
 * without end costs the host nothing.
 *
 * In a machine with a lease (waldo_sandbox_spec_options.lease_ms) they outlive the host process:
 * whoever opens the machine again finds them under the same numbers.
 */
#ifndef WALDO_BACKGROUND_H
#define WALDO_BACKGROUND_H

#include <waldo/sandbox.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    WALDO_BACKGROUND_MAX = 64,               /* at once, ended ones included */
    WALDO_BACKGROUND_KEPT = 256 * 1024,      /* bytes of output kept, unless max_output says */
    WALDO_BACKGROUND_KEPT_MAX = 1024 * 1024, /* and at most */
    WALDO_BACKGROUND_CMD_MAX = 192 * 1024    /* bytes of a cmd */
};

/** An offset: where the last read of this command ended; 0 in a machine that was reopened. */
#define WALDO_BACKGROUND_ON UINT64_MAX

/**
 * Start a command in the background. Options as for waldo_sandbox_exec(), but: standard error goes
 * to standard output, timeout_ms 0 means none, max_output is what is kept of the output's end, and
 * on_output must be NULL. Why it did not start is told by the first read.
 *
 * @param sandbox     exclusive; opened if need be, unless it is named or saved
 * @param options     copied
 * @param ret_number  set on success: above 0 and never used again in this machine
 * @param ret_err     set on failure, free with waldo_error_free(); may be NULL
 * @retval WALDO_OK      accepted
 * @retval WALDO_EBUSY   WALDO_BACKGROUND_MAX are running already; or a named or saved machine is
 *                       not open yet: waldo_sandbox_open() first, for it may have commands
 * @retval WALDO_EINVAL  a bad option; WALDO_ECLOSED when the sandbox is closed
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_status waldo_background_start(waldo_sandbox *sandbox,
                                              const waldo_exec_options *options,
                                              int64_t *ret_number, waldo_error **ret_err);

/** What a command printed from an offset on, and what became of it. Borrowed for the call. */
typedef struct waldo_background_news {
    uint32_t size;
    uint32_t reserved;
    const waldo_exec_result *result; /* NULL: it goes on; its outputs are empty */
    waldo_output output;             /* what is no longer kept counts as omitted; a character that
                                        the end of a reading cuts comes with the next one */
    uint64_t next;                   /* offset of what comes after, in bytes */
    int64_t ran_ns;                  /* so far, or in all */
} waldo_background_news;

/**
 * A read is over.
 *
 * @param userdata  as given
 * @param status    WALDO_OK; WALDO_ESTART when the command could not be started; other failures of
 *                  the sandbox
 * @param news      borrowed for the call; NULL unless status is WALDO_OK
 * @param error     borrowed for the call; NULL when status is WALDO_OK
 */
typedef void (*waldo_background_fn)(void *userdata, waldo_status status,
                                    const waldo_background_news *news, const waldo_error *error);

/** A read in progress. Valid until its completion was called. */
typedef struct waldo_background_reading waldo_background_reading;

/**
 * Wait until a command is over, for a time at most, then tell what it printed from an offset on.
 *
 * @param sandbox      exclusive
 * @param number       of the command
 * @param offset       first byte wanted, or WALDO_BACKGROUND_ON
 * @param max          most bytes wanted, head and tail together; at least 2
 * @param wait_ms      milliseconds to wait for its end; 0: not at all
 * @param done         called exactly once, from dispatch
 * @param userdata     given to done
 * @param ret_reading  set on success, borrowed until done returns; may be NULL
 * @param ret_err      set on failure, free with waldo_error_free(); may be NULL
 * @retval WALDO_OK        accepted; done will be called
 * @retval WALDO_ENOTFOUND none of that number; a machine that is to be reopened has to be open
 * @retval WALDO_EBUSY     it is being read already
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_status waldo_background_read(waldo_sandbox *sandbox, int64_t number,
                                             uint64_t offset, size_t max, int64_t wait_ms,
                                             waldo_background_fn done, void *userdata,
                                             waldo_background_reading **ret_reading,
                                             waldo_error **ret_err);

/**
 * Wait no longer: the completion comes soon, with what there is.
 *
 * @param reading  exclusive
 * Thread: driving. Since: 0.1.
 */
WALDO_API void waldo_background_hurry(waldo_background_reading *reading);

/**
 * Write to a command's standard input (WALDO_EXEC_KEEP_STDIN).
 *
 * @param sandbox  exclusive
 * @param number   of the command
 * @param bytes    copied
 * @param eof      1: close standard input after them
 * @retval WALDO_OK        queued
 * @retval WALDO_ENOTFOUND none of that number
 * @retval WALDO_ECLOSED   it is over, or its standard input is closed
 * @retval WALDO_EBUSY     more than 4 MiB wait already, or the machine is paused or its stream has
 *                         broken: with the next operation it goes on
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_status waldo_background_write(waldo_sandbox *sandbox, int64_t number,
                                              waldo_str bytes, int eof);

/**
 * Send a signal to a command's process group.
 *
 * @param sandbox  exclusive
 * @param number   of the command
 * @param signal   number as on Linux
 * @retval WALDO_OK        sent to the sandbox
 * @retval WALDO_ENOTFOUND none of that number; WALDO_ECLOSED when it is over
 * @retval WALDO_EINVAL    not a signal
 * @retval WALDO_EBUSY     the machine is paused or its stream has broken
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_status waldo_background_signal(waldo_sandbox *sandbox, int64_t number, int signal);

/**
 * Change the size of a command's terminal (WALDO_EXEC_TTY); what runs there gets SIGWINCH.
 *
 * @param sandbox  exclusive
 * @param number   of the command
 * @param rows     1 to 65535
 * @param columns  1 to 65535
 * @retval WALDO_OK        sent to the sandbox
 * @retval WALDO_ENOTFOUND none of that number; WALDO_ECLOSED when it is over
 * @retval WALDO_EINVAL    out of range, or the command has no terminal
 * @retval WALDO_EBUSY     the machine is paused or its stream has broken
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_status waldo_background_resize(waldo_sandbox *sandbox, int64_t number,
                                               uint32_t rows, uint32_t columns);

/**
 * End a command and its whole tree: TERM, grace, KILL. Its result still comes, by a read. Nothing
 * happens to one that is over or unknown. In a machine that is paused, or whose stream has broken,
 * it is ended as soon as that goes on.
 *
 * @param sandbox  exclusive
 * @param number   of the command
 * Thread: driving. Since: 0.1.
 */
WALDO_API void waldo_background_cancel(waldo_sandbox *sandbox, int64_t number);

/**
 * Forget a command that is over, with its output and result.
 *
 * @param sandbox  exclusive
 * @param number   of the command
 * @retval WALDO_OK        forgotten
 * @retval WALDO_ENOTFOUND none of that number
 * @retval WALDO_EBUSY     it runs, or is being read
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_status waldo_background_forget(waldo_sandbox *sandbox, int64_t number);

/** One command of a list. */
typedef struct waldo_background_info {
    int64_t number;
    int64_t ran_ns;   /* so far, or in all; 0: not known */
    int32_t running;  /* 1: it goes on */
    int32_t reading;  /* 1: it is being read */
    int64_t reserved; /* 0 */
} waldo_background_info;

/**
 * List the commands that are known, the oldest first.
 *
 * @param sandbox    borrowed for the call; a machine that is to be reopened has to be open
 * @param ret_infos  filled with at most max of them; may be NULL when max is 0
 * @param max        room in ret_infos; WALDO_BACKGROUND_MAX is always enough
 * @return how many there are, which may be more than max
 * Thread: driving. Since: 0.1.
 */
WALDO_API size_t waldo_background_list(const waldo_sandbox *sandbox,
                                       waldo_background_info *ret_infos, size_t max);

#ifdef __cplusplus
}
#endif

#endif

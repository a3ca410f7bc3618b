/*
 * Commands that go on while nobody waits for them. Each has a number within its sandbox; by it they
 * are read, written to, signalled and cancelled. One that ended keeps its result and the last of
 * its output until it is forgotten or newer ones push it out. The output stays in the sandbox and
 * comes when it is asked for: one that prints without end costs the host nothing.
 */
#ifndef WALDO_SANDBOX_BACKGROUND_H
#define WALDO_SANDBOX_BACKGROUND_H

#include <waldo/sandbox.h>

enum {
    WALDO__BACKGROUND_MAX = 64,               /* at once, ended ones included */
    WALDO__BACKGROUND_KEPT = 256 * 1024,      /* bytes of output kept, unless max_output says */
    WALDO__BACKGROUND_KEPT_MAX = 1024 * 1024, /* and at most */
    WALDO__BACKGROUND_CMD_MAX = 192 * 1024
};

/* An offset: where the last read of this command ended. */
#define WALDO__BACKGROUND_ON UINT64_MAX

/* Can the backend in use have commands in the background? */
int waldo__background_offered(const waldo_sandbox *sandbox);

/*
 * Start one. Options as for waldo_sandbox_exec(), but: standard error goes to standard output,
 * timeout_ms 0 means none, max_output is what is kept, on_output must be NULL. ret_number is above
 * 0 and never used again in this sandbox.
 *
 * WALDO_EBUSY: so many are running already. Why it did not start is told by the first read.
 */
waldo_status waldo__background_start(waldo_sandbox *sandbox, const waldo_exec_options *options,
                                     int64_t *ret_number, waldo_error **ret_err);

/* What a command printed from an offset on, and what became of it. Borrowed for the call. */
typedef struct waldo__background_news {
    const waldo_exec_result *result; /* NULL: it goes on; its outputs are empty */
    waldo_output output;             /* what is no longer kept counts as omitted */
    uint64_t next;                   /* offset of what comes after */
    int64_t ran_ns;                  /* so far, or in all */
} waldo__background_news;

/* news is NULL unless status is WALDO_OK; WALDO_ESTART and others when it was never started. */
typedef void (*waldo__background_fn)(void *userdata, waldo_status status,
                                     const waldo__background_news *news, const waldo_error *error);

typedef struct waldo__background_read waldo__background_read; /* valid until its completion */

/*
 * Wait until the command is over, for wait_ms at most, then tell what it printed from offset on:
 * head and tail, together at most max bytes. ret_read may be NULL. done is called exactly once,
 * from dispatch. Refused at once: WALDO_ENOTFOUND, WALDO_EBUSY for one that is being read already.
 */
waldo_status waldo__background_read_on(waldo_sandbox *sandbox, int64_t number, uint64_t offset,
                                       size_t max, int64_t wait_ms, waldo__background_fn done,
                                       void *userdata, waldo__background_read **ret_read,
                                       waldo_error **ret_err);
void waldo__background_hurry(waldo__background_read *read); /* wait no longer */

/* As for jobs. WALDO_ENOTFOUND: none of that number; WALDO_ECLOSED: it is over. */
waldo_status waldo__background_write(waldo_sandbox *sandbox, int64_t number, waldo_str bytes,
                                     int eof);
waldo_status waldo__background_signal(waldo_sandbox *sandbox, int64_t number, int signal);
waldo_status waldo__background_resize(waldo_sandbox *sandbox, int64_t number, uint32_t rows,
                                      uint32_t columns);

/* Its tree is ended, its result still comes. Nothing happens to one that is over. */
void waldo__background_cancel(waldo_sandbox *sandbox, int64_t number);

/* Forget one that is over; WALDO_EBUSY while it runs or is read. */
waldo_status waldo__background_forget(waldo_sandbox *sandbox, int64_t number);

/* For sandbox.c: all of them, once no op is left. */
void waldo__background_free_all(waldo_sandbox *sandbox);

#endif

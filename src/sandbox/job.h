/* A command: what was asked, what came of it so far. */
#ifndef WALDO_SANDBOX_JOB_H
#define WALDO_SANDBOX_JOB_H

#include "sandbox/collect.h"
#include "sandbox/live.h"

/* A script on its way into a file; outlives its job. */
typedef struct waldo__script {
    waldo_job *job; /* NULL: gone */
    char path[64];
} waldo__script;

struct waldo_job {
    waldo__op op;
    waldo__hand_call *call; /* while it runs */
    waldo_exec_fn done;
    void *userdata;
    /* as asked; owned */
    uint32_t flags;
    char *cmd;
    char **argv;
    char *shell;
    waldo__path cwd;
    char **env;
    int64_t timeout_ms; /* the one in force; WALDO_FOREVER: none */
    int64_t grace_ms;
    uint16_t rows;
    uint16_t columns;
    size_t max_output;
    uint64_t max_capture;
    waldo_output_fn on_output;
    waldo_cancel *cancel;
    waldo__cancel_watch *cancel_watch;
    int kept;       /* goes on without a reader; its output stays in the hand */
    int64_t number; /* kept: of the background command */
    void (*on_started)(void *userdata, uint32_t hand_id); /* kept: the hand has it */
    /* standard input not yet sent */
    waldo__buf input;
    size_t window; /* bytes that may be sent */
    int input_ends;
    int input_ended;
    /* while it runs */
    waldo_cancel *backend_cancel;
    waldo__script *script;
    waldo__timer backstop;
    int64_t started_ns;
    int64_t cancel_end_ns; /* 0, or when the hand was asked to kill it */
    int pending_signal;
    uint64_t seen[2]; /* bytes of each stream, gaps included */
    uint64_t owed;    /* credit not yet given back */
    char capture[64]; /* path; empty: none */
    /* what it came to */
    waldo__collect out, err, both;
    waldo__merge merge; /* into both */
    waldo_exec_result result;
};

void waldo__job_too_late(void *userdata); /* of the backstop timer */
void waldo__job_run(waldo_job *job);      /* exec_run.c: send it to the machine */
void waldo__job_stop(waldo_job *job);     /* hear nothing more of it */
void waldo__job_pump(waldo_job *job);     /* send standard input */
/* An exec whose output is read from the hand by the id that started gets. */
waldo_status waldo__exec_kept(waldo_sandbox *sandbox, const waldo_exec_options *options,
                              int64_t number, waldo_exec_fn done,
                              void (*started)(void *userdata, uint32_t hand_id), void *userdata,
                              waldo_job **ret_job, waldo_error **ret_err);
/* A kept command of an earlier session, which the hand has told to run. */
waldo_status waldo__exec_adopt(waldo_sandbox *sandbox, uint32_t hand_id, waldo_exec_fn done,
                               void *userdata, waldo_job **ret_job, waldo_error **ret_err);
waldo_status waldo__job_adopt(waldo_job *job, uint32_t hand_id); /* exec_run.c: its part */
void waldo__exec_result_of(const waldo__hand_exit *exit, waldo_exec_result *ret_result);
waldo_exec_result *waldo__exec_result_copy(const waldo_exec_result *from); /* one block */

void waldo__job_output(waldo_job *job, int stream, waldo_str bytes);

#endif

/*
 * One run inside the library. What it does lives in these files:
 *   run.c      the object and its public face
 *   journal.c  append -> durable -> act
 *   epoch.c    what requests begin with, and how items get into them
 *   turn.c     asking the model, reading, trying again
 *   source.c   where answers come from
 *   remote.c   conversations that their provider keeps
 *   usage.c    what was used, and limits of it
 *   calls.c    running what the model asked for: approvals, order, limits
 *   machine.c  what is heard of its machine, and of another one in its place
 */
#ifndef WALDO_AGENT_RUN_H
#define WALDO_AGENT_RUN_H

#include "agent/agent.h"
#include "agent/events.h"
#include "agent/generation.h"
#include "agent/recorder.h"
#include "agent/runtime.h"
#include "transcript/transcript.h"
#include <waldo/run.h>

/* Where a call of the model stands. */
typedef enum waldo__slot_state {
    WALDO__SLOT_ASKING,   /* the request for approval is not durable yet */
    WALDO__SLOT_WAITING,  /* for the host's decision */
    WALDO__SLOT_READY,    /* may be dispatched when there is room */
    WALDO__SLOT_DISPATCH, /* its dispatch record is not durable yet */
    WALDO__SLOT_RUNNING,
    WALDO__SLOT_ENDED, /* its result is not durable yet */
    WALDO__SLOT_DONE
} waldo__slot_state;

/* One call of the current response, in call order. */
typedef struct waldo__slot {
    waldo_run *run;
    size_t item; /* index of the call in the transcript */
    waldo__slot_state state;
    int is_error;
    int unrecorded;          /* memory was out for the record of its result */
    waldo_tool *tool;        /* borrowed from the agent; NULL: unknown */
    waldo_tool_call *call;   /* NULL until it can run */
    waldo__media_list media; /* of the result */
    waldo__buf result;
    char key[65];            /* SHA-256 of run, position, tool and arguments, in hex */
    waldo__scrubber live[2]; /* of its two output streams */
} waldo__slot;

/* What the user said and no request has yet. */
typedef struct waldo__queued {
    char *text;
    waldo__media_list media;
} waldo__queued;

struct waldo_run {
    waldo__ring all;
    waldo_runtime *rt;
    waldo_agent *agent;
    waldo_model *model; /* that is asked; changed between requests, and then the epoch ends */
    char *id;
    waldo_sandbox *sandbox;
    waldo_error *error;
    waldo_run_state state;
    waldo_stop stop;
    waldo_status status;
    unsigned generation; /* raised by every cancel: continuations of older ones do not act */
    int in_callback;     /* a callback of the host runs that may free the run */
    int doomed;          /* it has */
    waldo_reader *reader;
    waldo__transcript transcript;
    waldo__events events;
    int http_status;
    int paused;
    waldo__ring rested;
    char *label;
    void *userdata;
    waldo_limits limits;
    waldo_keys keys; /* get NULL: the runtime's */
    waldo__cancel_watch *cancel_watch;

    int broken;             /* its making failed: it takes no text */
    waldo_stop interrupted; /* on its way to rest because of this; WALDO_STOP_NONE: it is not */
    waldo_error *interrupt_error;

    int sandbox_shared;
    waldo__sandbox_listener listener;
    const char *notes; /* about the sandbox, for the model; borrowed from its spec */
    waldo_sandbox_spec *spec;
    size_t notices_taken;                     /* of the sandbox, in the transcript ... */
    size_t notices_told;                      /* ... and handed to the store */
    struct waldo__machine_wait *machine_wait; /* NULL: no request waits for a machine */
    int machine_hurry;                        /* nor is the next one to */

    size_t announced;  /* items reported as final */
    size_t journalled; /* items handed to the store; the others can be taken back */
    struct {
        WALDO__VEC(waldo__queued);
    } queued;     /* what the user said for the next request */
    size_t taken; /* of them in the transcript, but not yet handed to the store */
    waldo__buf answer;
    waldo__buf exported; /* as messages, when that was asked for */

    waldo_run_ready_fn on_ready;
    void *ready_userdata;
    waldo__task ready_task;

    waldo__ring journal; /* commits on their way */
    uint64_t seq;        /* records appended so far */
    struct {
        WALDO__VEC(waldo_str);
    } records;                  /* to be appended with the next commit */
    waldo_usage new_usage;      /* recorded in them; counts when durable */
    waldo_error *journal_error; /* the store failed: the journal cannot go on */

    waldo_encoder *encoder;
    int new_epoch;         /* its record is not handed to the store yet */
    const char *epoch_why; /* why the next one begins; NULL: it is the first */
    size_t encoded;        /* items the encoder has */
    waldo__transfer *transfer;
    waldo__recorder *recorder;   /* NULL: nothing is recorded */
    const waldo__exchange *play; /* the recorded answer that is being read */
    size_t played;               /* exchanges of the recording that were begun */
    size_t play_chunk;           /* next one of its pieces */
    waldo_generation *asked;     /* the request that a function of the host answers */
    waldo__task source_task;
    waldo__buf delta; /* scrubbed, on its way to its event; while an answer comes */
    waldo__scrubber text_scrubber;
    waldo__scrubber reasoning_scrubber;
    waldo__buf key_name; /* slab name of the key in use */
    waldo__buf head;     /* headers of the answer */
    waldo__buf refusal;  /* body of an answer that is not 2xx */
    waldo_error *read_error;
    int key_renewed;
    int repaired;       /* this request was built anew without the provider's own JSON */
    size_t plain_until; /* items before it are encoded without that JSON */
    int thoughtless;    /* no reasoning is asked for, whatever the model's options */
    int shortened;      /* this request was built anew with less tool output */
    size_t cut_until;   /* results before it are sent shortened ... */
    size_t cut_newest;  /* ... those from here on less so */
    size_t next_model;  /* of the agent's list to fall back to */
    int in_doubt;       /* the provider may have what is not known here: nothing more is asked */
    uint32_t attempt;
    waldo__timer retry_timer;
    waldo__timer time_limit;

    uint32_t turns;      /* requests for the current prompt */
    uint32_t calls_made; /* tool calls for the current prompt */
    waldo_usage usage;
    waldo__model_facts facts; /* of the model that is asked */
    int64_t context_tokens;   /* prompt and answer of the last response; -1: not known */
    size_t context_items;     /* items they stand for */

    struct {
        WALDO__VEC(waldo__slot *);
    } slots;
    int answer_repaired; /* the model was told that its answer does not follow the schema */
    int batch_over;      /* their results are in the transcript: they go with the next commit */
    size_t running;
    struct {
        WALDO__VEC(waldo_tool *);
    } approved; /* tools the host has agreed to for this run */
};

waldo_run *waldo__run_of_all(waldo__ring *node);
waldo_run *waldo__run_of_rested(waldo__ring *node);

/* ---- run.c ---- */

void waldo__run_set_state(waldo_run *run, waldo_run_state state);

/* Come to rest. error is taken; NULL for an answer. */
void waldo__run_rest(waldo_run *run, waldo_stop stop, waldo_error *error);

/* Stop what it does, keep the history usable, then rest with this. error is taken. */
void waldo__run_interrupt(waldo_run *run, waldo_stop stop, waldo_error *error);

/* Something can be pulled. */
void waldo__run_notify(waldo_run *run);

/* Nobody pulls for now: a full queue must not stop the run, unless its host is told of events. */
void waldo__run_stop_observing(waldo_run *run);

/*
 * Replace secrets in a text that will leave. The clean one is in room, which the caller frees;
 * without memory it is empty and the run is going to fail.
 */
void waldo__run_clean(waldo_run *run, waldo_str *text, waldo__buf *room);

/* The same for an error, whose words may be the provider's. */
void waldo__run_clean_error(waldo_run *run, waldo_error **error);

/* A run that has work: not at rest, not closed. */
int waldo__run_is_busy(const waldo_run *run);

/* ---- journal.c ---- */

/* What to do when everything recorded so far is durable; not called when the run has moved on. */
typedef void (*waldo__run_fn)(waldo_run *run, void *context);

struct waldo__json_writer;

/* The first record. */
void waldo__record_created(waldo_run *run);

/* Begin and end one record: {"t":type, ... }. */
void waldo__record_begin(const waldo_run *run, waldo__buf *json, struct waldo__json_writer *jw,
                         const char *type);
void waldo__record_end(waldo_run *run, waldo__buf *json, struct waldo__json_writer *jw);

/* Add items to transcript and journal. */
waldo_status waldo__run_add_items(waldo_run *run, const waldo_item *items, size_t count);

/*
 * Append what was recorded; then, durable, announce items and go on with next. Without memory, or
 * after the store has failed, the run comes to rest as failed instead, and what was not handed over
 * is as if it had not happened.
 */
void waldo__run_commit(waldo_run *run, waldo__run_fn next, void *context);

/* Forget continuations of a run that is being freed, and of a runtime. */
void waldo__run_journal_drop(waldo_run *run);
void waldo__journal_forget(waldo_runtime *rt);

/* ---- turn.c ---- */

void waldo__turn_init(waldo_run *run);

/* The next request: queued texts in, limits checked, everything durable, then sent. */
void waldo__run_ask(waldo_run *run);

/* End the request at work, if any. */
void waldo__run_drop_request(waldo_run *run);

/* Go on reading when the queue has room again. */
void waldo__run_resume_reading(waldo_run *run);

/* The answer to the request at work, from its source. */
void waldo__turn_head(waldo_run *run, const waldo__http_head *head);
waldo_status waldo__turn_body(waldo_run *run, waldo_str bytes);
void waldo__turn_done(waldo_run *run, waldo_status status, const waldo_error *transport);

/* ---- source.c ---- */

void waldo__source_init(waldo_run *run);

/* Send a request; waldo__turn_done() comes from the run queue unless this fails. */
waldo_status waldo__source_start(waldo_run *run, const waldo_model_request *request,
                                 waldo_error **ret_err);
int waldo__source_open(const waldo_run *run);
void waldo__source_pause(waldo_run *run, int paused);
void waldo__source_drop(waldo_run *run); /* nothing of it comes any more */

/* A recording answers, and neither keys nor waiting are needed. */
int waldo__source_offline(const waldo_run *run);

/* Put the recorded id in place of that of the answer's call number n from 0; moves n on. */
void waldo__source_name_call(const waldo_run *run, size_t *n, waldo_str *id);

/* Whether part number n of the answer was recorded without its provider's JSON. */
int waldo__source_left_out(const waldo_run *run, size_t n);

/* The recorded result of a call that is item of the transcript; NULL: it must be run. */
const waldo__recorded_result *waldo__source_result(const waldo_run *run, size_t item);

/* ---- machine.c ---- */

void waldo__run_take_machine(waldo_run *run); /* begin and end hearing of its sandbox */
void waldo__run_leave_machine(waldo_run *run);

/* 1: a lost machine is being replaced, and waldo__run_ask() is called again when that is over. */
int waldo__run_awaits_machine(waldo_run *run);

/* What the model has not heard of changes of the machine, as items. */
waldo_status waldo__run_take_notices(waldo_run *run);

/* ---- answer.c ---- */

/* The model has answered: come to rest, or have it answer again when its form is not the wanted. */
void waldo__run_take_answer(waldo_run *run);

/* ---- usage.c ---- */

extern const waldo_usage waldo__no_usage;

/* Record what a response has used, its items being in the transcript. */
void waldo__run_record_usage(waldo_run *run, const waldo_usage *usage);

/* Record that the request at work ended without a whole response, for this reason. */
void waldo__run_record_cut(waldo_run *run, waldo_status status);

/* It is durable: count and report it. */
void waldo__run_announce_usage(waldo_run *run, const waldo_usage *usage);

/* May the next request not be sent? Then with the reason. */
int waldo__run_limit_reached(const waldo_run *run, waldo_error **ret_err);

/* The same for tokens and money alone: of a request that is sent anew. */
int waldo__run_budget_is_used(const waldo_run *run, waldo_error **ret_err);

/* How a run comes to rest with an error of these two. */
waldo_stop waldo__stop_for(const waldo_error *error);

/* May the provider have worked on the request that ended so? */
int waldo__run_may_have_used(const waldo_run *run, waldo_status status);

/* ---- remote.c ---- */

/* The provider keeps the conversation. */
int waldo__run_is_remote(const waldo_run *run);

/* WALDO_ENOTSUP, also told by a warning: what cannot be done, "it cannot ...". */
waldo_status waldo__run_refuse_move(waldo_run *run, const char *what, waldo_error **ret_err);

/* An overflow is final where nothing can be shortened: say so. */
void waldo__run_explain_overflow(waldo_run *run, waldo_error **error);

/*
 * 1: a request that failed so (NULL: was cancelled) may have been answered in a place that a second
 * try would add to.
 */
int waldo__run_loses_track(waldo_run *run, waldo_error **error);
int waldo__run_has_lost_track(waldo_run *run, waldo_error **ret_err);

/* What a journal gets in place of texts and whole items. */
void waldo__remote_write_text(struct waldo__json_writer *jw, waldo_str text);
void waldo__remote_write_media(struct waldo__json_writer *jw, const waldo_media *media,
                               size_t count);
waldo_status waldo__remote_write_item(const waldo_item *item, waldo__buf *out);

/* ---- recover.c ---- */

/* Ask this model from now on; ends the epoch. Only where no request is at work. */
void waldo__run_use_model(waldo_run *run, waldo_model *model);

/*
 * Begin an epoch in which the request that failed so may succeed; 0: there is none, or it could not
 * begin, and then that is the error now.
 */
int waldo__run_recover(waldo_run *run, waldo_error **error);

/* The same with the next model to fall back to, where that may help. */
int waldo__run_fall_back(waldo_run *run, waldo_error **error);

/* ---- shorten.c ---- */

/* Send results of tools shorter from the next epoch on; 0: that makes nothing shorter. */
int waldo__run_shorten(waldo_run *run);

/* Bytes of the item's text that are sent, but for a note. */
size_t waldo__run_sent_len(const waldo_run *run, size_t index);

/* Images of the item that are sent: all or none. */
size_t waldo__run_sent_images(const waldo_run *run, size_t index);

/* Leave of an item what is sent of it; room is freed by the caller, come what may. */
waldo_status waldo__run_sent_item(const waldo_run *run, size_t index, waldo_item *item,
                                  waldo__buf *room);

/* ---- epoch.c ---- */

/* Freeze what every request begins with; journalled and told, with the reason. */
waldo_status waldo__run_begin_epoch(waldo_run *run, const char *why, waldo_error **ret_err);

/* Give the encoder the items it does not have yet. */
waldo_status waldo__run_encode(waldo_run *run, waldo_error **ret_err);
void waldo__run_free_epoch(waldo_run *run);

/* Where the response at the end of the transcript begins; its end when there is none. */
size_t waldo__run_response_start(const waldo_run *run);

/* ---- calls.c ---- */

/* Run the calls among items [from, count of the transcript). */
void waldo__run_call_tools(waldo_run *run, size_t from, int cut);

/* Do not run them: answer each as not run and come to rest. error is taken. */
void waldo__run_skip_calls(waldo_run *run, size_t from, waldo_stop stop, waldo_error *error);

/* End every call that is not done, with this text as its result. */
void waldo__run_settle_calls(waldo_run *run, const char *text);

/* Stop the calls; they stay open until the next prompt settles them. */
void waldo__run_stop_calls(waldo_run *run);

void waldo__run_free_calls(waldo_run *run);

#endif

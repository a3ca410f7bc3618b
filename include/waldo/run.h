/**
 * @file
 * Runs: one conversation each. A run belongs to its runtime; it works while the runtime is driven.
 */
#ifndef WALDO_RUN_H
#define WALDO_RUN_H

#include <waldo/agent.h>
#include <waldo/event.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t waldo_run_state;
enum {
    WALDO_RUN_IDLE = 1, /* at rest: waldo_run_stop() says why, waldo_run_send() goes on */
    WALDO_RUN_MODEL,    /* the model is asked */
    WALDO_RUN_TOOLS,    /* calls are run */
    WALDO_RUN_WAITING,  /* calls wait for waldo_run_decide(), and nothing else is left to do */
    WALDO_RUN_CLOSED
};

/** Why a run came to rest. */
typedef int32_t waldo_stop;
enum {
    WALDO_STOP_NONE = 0, /* it has not yet */
    WALDO_STOP_ANSWERED,
    WALDO_STOP_CANCELLED,
    WALDO_STOP_LIMIT, /* waldo_run_error() says which */
    WALDO_STOP_FAILED,
    WALDO_STOP_REFUSED
};

/** Zero means "default" for every member; text is copied. */
typedef struct waldo_run_options {
    uint32_t size; /* sizeof(waldo_run_options) */
    waldo_workspace_mode workspace_mode;
    const char *prompt;     /* first text from the user; NULL: wait for waldo_run_send() */
    const char *label;      /* the host's own name for this run */
    const char *workspace;  /* host directory for this run's own machine */
    const char *sandbox;    /* sandbox string instead of the agent's */
    waldo_sandbox *share;   /* use this machine; gets a reference; it is not closed by the run */
    const waldo_keys *keys; /* source instead of the runtime's; copied */
    waldo_cancel *cancel;   /* stops the run when triggered; gets a reference */
    const waldo_limits *limits; /* instead of the agent's; copied */
    void *userdata;             /* for the host: waldo_run_userdata() */
    const char *id;             /* id in the store; NULL: a random one */
    const char *record; /* file that gets what goes between run and model (docs/recordings.md) */
} waldo_run_options;

#define WALDO_RUN(...) ((waldo_run_options){ .size = sizeof(waldo_run_options), __VA_ARGS__ })

/**
 * Make a run and, if there is a prompt, begin. A bad agent, option or prompt gives a run at rest as
 * failed. Freeing it is optional: its runtime does it in the end.
 *
 * @param rt       must outlive the run
 * @param agent    gets a reference
 * @param options  copied; NULL means all defaults
 * @return owned by rt until waldo_run_free(); NULL when out of memory or rt is NULL
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_run *waldo_run_new(waldo_runtime *rt, waldo_agent *agent,
                                   const waldo_run_options *options);

/**
 * End a run now: what it runs remotely is handed to the runtime to end, pending completions come
 * with WALDO_ECANCELED before this returns, nothing after.
 *
 * @param run  taken; NULL is a no-op
 * Thread: driving; from callbacks too. Since: 0.1.
 */
WALDO_API void waldo_run_free(waldo_run *run);

/**
 * Drive until the run is at rest or waits for the host.
 *
 * @param run         exclusive
 * @param timeout_ms  milliseconds; WALDO_FOREVER
 * @retval WALDO_OK         it answered
 * @retval WALDO_PENDING    it waits for waldo_run_decide()
 * @retval WALDO_ETIMEDOUT  the time is over, the run goes on
 * @return else the run's own failure, as waldo_run_status()
 * Thread: driving, not from callbacks. Since: 0.1.
 */
WALDO_API waldo_status waldo_run_wait(waldo_run *run, int64_t timeout_ms);

/**
 * The next event, driving the loop while there is none.
 *
 * @param run         exclusive
 * @param timeout_ms  milliseconds; WALDO_FOREVER; 0: do not drive, for host loops
 * @param ret_event   set on WALDO_OK, borrowed until the next pull from this run
 * @retval WALDO_OK         an event
 * @retval WALDO_END        at rest and no event is left
 * @retval WALDO_AGAIN      none yet (timeout_ms 0 only): drive the loop
 * @retval WALDO_PENDING    the run waits for waldo_run_decide() and no event is left
 * @retval WALDO_ETIMEDOUT  none came in time
 * @return else WALDO_EREENTRANT, WALDO_EFORKED
 * Thread: driving; from callbacks with timeout_ms 0 only. Since: 0.1.
 */
WALDO_API waldo_status waldo_run_next(waldo_run *run, int64_t timeout_ms,
                                      const waldo_event **ret_event);

/** Told that events wait or the run's rest has come; from dispatch. */
typedef void (*waldo_run_ready_fn)(void *userdata, waldo_run *run);

/**
 * Be told when waldo_run_next() has something, instead of asking.
 *
 * @param run       exclusive
 * @param ready     called from dispatch, at most once a dispatch; NULL takes it back
 * @param userdata  given to ready
 * Thread: driving. Since: 0.1.
 */
WALDO_API void waldo_run_on_ready(waldo_run *run, waldo_run_ready_fn ready, void *userdata);

/**
 * Give the run more text from the user. While it works, the text is queued for the next request.
 *
 * @param run   exclusive
 * @param text  valid UTF-8; copied
 * @retval WALDO_OK      taken
 * @retval WALDO_EUTF8   not valid UTF-8; nothing was taken
 * @retval WALDO_ECLOSED the run is closed or its agent bad
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_status waldo_run_send(waldo_run *run, const char *text);

/** A piece of what the user says; either member may be empty. */
typedef struct waldo_part {
    waldo_str text;  /* valid UTF-8 */
    waldo_str image; /* the bytes of a PNG, JPEG, GIF or WebP file */
} waldo_part;

/**
 * waldo_run_send() for text and images, as one message: the texts line by line, then the images.
 * Whether a model takes images is its provider's to say.
 *
 * @param run    exclusive
 * @param parts  copied
 * @param count  of parts, at least 1
 * @retval WALDO_OK      taken
 * @retval WALDO_EUTF8   a text is not valid UTF-8; nothing was taken
 * @retval WALDO_EINVAL  no parts, or an image that is not such a file; nothing was taken
 * @retval WALDO_ETOOBIG an image of more than 10 MiB, more than 32 MiB or 20 images, or too much
 *                       text; nothing was taken
 * @retval WALDO_ECLOSED the run is closed or its agent bad
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_status waldo_run_send_parts(waldo_run *run, const waldo_part *parts, size_t count);

/**
 * waldo_run_send() for text with a length.
 *
 * @param run   exclusive
 * @param text  valid UTF-8; copied
 * @return as waldo_run_send()
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_status waldo_run_send_text(waldo_run *run, waldo_str text);

/**
 * Go on with another model, of any vendor, from the next request on. The epoch ends: the history is
 * built anew, in the new model's form, with what only its own vendor understands left out. The
 * epoch is recorded and told (WALDO_EVENT_EPOCH) before that request.
 *
 * @param run    exclusive; must be at rest
 * @param model  gets a reference; what is wrong with it: waldo_model_error()
 * @retval WALDO_OK      taken; nothing changes when it is the run's model already
 * @retval WALDO_EINVAL  model is NULL
 * @retval WALDO_EBUSY   the run works or waits
 * @retval WALDO_ENOTSUP the run has items, and a provider keeps the conversation, or would have to
 *                       (history=provider, docs/models.md); a warning says so
 * @retval WALDO_ECLOSED the run is closed or its agent bad
 * @return else the status of waldo_model_error(); the run keeps its model
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_status waldo_run_set_model(waldo_run *run, waldo_model *model);

/**
 * Answer an approval request.
 *
 * @param run       exclusive
 * @param call_id   of a WALDO_EVENT_APPROVAL
 * @param decision  copied; WALDO_DECIDE_LATER is refused
 * @retval WALDO_OK        taken
 * @retval WALDO_ENOTFOUND no such call waits
 * @retval WALDO_EINVAL    edited arguments that the tool does not accept; the call waits on
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_status waldo_run_decide(waldo_run *run, const char *call_id,
                                        const waldo_decision *decision);

/**
 * Stop what the run does; it comes to rest as cancelled, its history stays usable. From other
 * threads use a waldo_cancel.
 *
 * @param run  exclusive; NULL is a no-op
 * Thread: driving. Since: 0.1.
 */
WALDO_API void waldo_run_cancel(waldo_run *run);

/**
 * @param run  borrowed for the call
 * @return its state; WALDO_RUN_CLOSED for NULL
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_run_state waldo_run_get_state(const waldo_run *run);

/**
 * @param run  borrowed for the call
 * @return why it last came to rest
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_stop waldo_run_stop(const waldo_run *run);

/**
 * @param run  borrowed for the call; NULL counts as out of memory
 * @return WALDO_OK when it answered, WALDO_PENDING while it works or waits, else its failure
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_status waldo_run_status(const waldo_run *run);

/**
 * @param run  borrowed for the call
 * @return the error behind waldo_run_status(), borrowed until the run goes on or is freed; NULL
 *         when there is none
 * Thread: driving. Since: 0.1.
 */
WALDO_API const waldo_error *waldo_run_error(const waldo_run *run);

/**
 * @param run  borrowed for the call; NULL is accepted
 * @return the message of waldo_run_error(), borrowed as that; "" when there is none
 * Thread: driving. Since: 0.1.
 */
WALDO_API const char *waldo_run_errmsg(const waldo_run *run);

/**
 * @param run  borrowed for the call
 * @return the text of the last answer, borrowed until the run goes on or is freed; "" before any
 * Thread: driving. Since: 0.1.
 */
WALDO_API const char *waldo_run_text(const waldo_run *run);

/**
 * @param run  borrowed for the call
 * @return the label given at its making, borrowed until the run is freed; "" when there was none
 * Thread: driving. Since: 0.1.
 */
WALDO_API const char *waldo_run_label(const waldo_run *run);

/**
 * The response that a conversation kept by its provider (history=provider) goes on from: the last
 * one that came to its end and was reported.
 *
 * @param run  borrowed for the call
 * @return its id as the provider gave it, borrowed until the run is freed; "" when there is none
 * Thread: driving. Since: 0.1.
 */
WALDO_API const char *waldo_run_response_id(const waldo_run *run);

/**
 * @param run  borrowed for the call
 * @return its id in the store, borrowed until the run is freed
 * Thread: driving. Since: 0.1.
 */
WALDO_API const char *waldo_run_id(const waldo_run *run);

/**
 * @param run  borrowed for the call
 * @return userdata of its options
 * Thread: driving. Since: 0.1.
 */
WALDO_API void *waldo_run_userdata(const waldo_run *run);

/**
 * Tokens and cost of the whole run so far. Of what was cut or cancelled the numbers hold what the
 * provider had said by then, and .incomplete says that there is more.
 *
 * @param run        borrowed for the call
 * @param ret_usage  always set
 * Thread: driving. Since: 0.1.
 */
WALDO_API void waldo_run_usage(const waldo_run *run, waldo_usage *ret_usage);

/**
 * @param run  borrowed for the call
 * @return number of items in the transcript
 * Thread: driving. Since: 0.1.
 */
WALDO_API size_t waldo_run_item_count(const waldo_run *run);

/**
 * @param run    borrowed for the call
 * @param index  from 0
 * @return the item as JSON (docs/events.md), borrowed until the run is freed; empty past the end
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_str waldo_run_item(const waldo_run *run, size_t index);

/**
 * Begin with a conversation that was kept as chat messages: a JSON array in the form of Chat
 * Completions (docs/events.md). The run must be at rest and have no item yet; nothing is asked.
 *
 * @param run       exclusive
 * @param messages  JSON text, copied; all of it is taken or nothing
 * @param ret_err   set on failure, free with waldo_error_free(); may be NULL
 * @retval WALDO_OK      taken; its items are final, and told as events, when the loop was driven
 * @retval WALDO_EBUSY   the run works or has items
 * @retval WALDO_ECLOSED the run is closed or its agent bad
 * @retval WALDO_EINVAL  the error names the message and what is wrong with it
 * @retval WALDO_ENOTSUP the provider keeps the conversation (history=provider)
 * @return else WALDO_EJSON, WALDO_EUTF8, WALDO_ETOOBIG: the text is no JSON, or too much of it
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_status waldo_run_import(waldo_run *run, waldo_str messages, waldo_error **ret_err);

/**
 * The final items as chat messages, as waldo_run_import() reads them. Left out are instructions,
 * reasoning and whether a result was an error. While tools run, calls stand there without results.
 *
 * @param run  exclusive
 * @return JSON text, borrowed until the next export or until the run is freed; empty when out of
 *         memory, and with a warning when the provider keeps the conversation (history=provider)
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_str waldo_run_export(waldo_run *run);

/**
 * The run's machine, for the host's own use beside the agent's.
 *
 * @param run  borrowed for the call
 * @return borrowed until the run is freed; NULL when it has none
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_sandbox *waldo_run_sandbox(const waldo_run *run);

/**
 * Save what the run changed in its copied workspace as a patch file; drives the loop.
 *
 * @param run   exclusive, at rest
 * @param file  path on the host, replaced as a whole; made even when nothing changed
 * @retval WALDO_OK      written
 * @retval WALDO_ENOTSUP the run has no copied workspace
 * @return else the failure; waldo_run_error() has the detail
 * Thread: driving, not from callbacks. Since: 0.1.
 */
WALDO_API waldo_status waldo_run_save_changes(waldo_run *run, const char *file);

#ifdef __cplusplus
}
#endif

#endif

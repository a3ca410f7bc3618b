/*
 * Tools and tool calls, apart from runs: whoever makes a call (a run, a test) gives it a sink. The
 * tools module builds on this header and on nothing else of the agent.
 */
#ifndef WALDO_AGENT_TOOL_H
#define WALDO_AGENT_TOOL_H

#include "base/buf.h"
#include "http/http.h"
#include "json/json.h"
#include "sandbox/sandbox.h"
#include "transcript/media.h"
#include <waldo/agent.h>

/* Further flags of built-in tools, beside WALDO_PARALLEL_SAFE, ... */
enum {
    WALDO__TOOL_SANDBOX = 1u << 16,  /* needs a sandbox */
    WALDO__TOOL_FREE_ARGS = 1u << 17 /* checks its arguments itself: any JSON comes to it */
};

/*
 * A built-in tool and the capability that switches it on. Its userdata: not NULL with
 * WALDO_ADD_MUST_NOT_EXIST.
 */
typedef struct waldo__builtin {
    uint32_t capability;
    const waldo_tool_options *options;
    const char *prompt; /* block for the instructions; NULL: none. One per capability is enough */
} waldo__builtin;

/* Table of src/tools; ends with options NULL. */
extern const waldo__builtin waldo__builtins[];

const waldo_tool_options *waldo__tool_options(
    const waldo_tool *tool);                          /* name, about, flags, call */
waldo_str waldo__tool_schema(const waldo_tool *tool); /* JSON */
/* The schema its arguments are held to; NULL: any JSON comes to it. */
const waldo__json_value *waldo__tool_rules(const waldo_tool *tool);

/* How a call ended. */
typedef enum waldo__call_end {
    WALDO__CALL_REPLY, /* text is the result */
    WALDO__CALL_FAIL,  /* text is an error for the model */
    WALDO__CALL_ABORT  /* status ends the turn */
} waldo__call_end;

/* What a call needs from its maker; all members but sandbox and http mandatory. Copied. */
typedef struct waldo__call_sink {
    void *userdata;
    waldo__loop *loop;
    waldo__http *http;      /* for waldo_tool_call_fetch(); may be NULL */
    waldo_sandbox *sandbox; /* may be NULL; borrowed until the call has ended */
    size_t max_output;      /* bytes of a result the model sees */
    /* Live output; from dispatch. May be NULL. */
    void (*output)(void *userdata, waldo_tool_call *call, int stream, waldo_str bytes);
    /* Exactly once, from the run queue; text is borrowed for the call, valid UTF-8. */
    void (*ended)(void *userdata, waldo_tool_call *call, waldo__call_end end, waldo_status status,
                  waldo_str text);
} waldo__call_sink;

/*
 * Make a call: arguments are parsed and checked. WALDO_EJSON or WALDO_EINVAL with a sentence for
 * the model when they are not acceptable, and then there is no call.
 */
waldo_status waldo__tool_call_new(waldo_tool *tool, const char *id, const char *key, waldo_str args,
                                  const waldo__call_sink *sink, waldo_tool_call **ret_call,
                                  waldo_error **ret_err);

/* Run it. ended comes later, always. */
void waldo__tool_call_start(waldo_tool_call *call);

/* From ended: the images of its result, which the caller gets; ret_media is empty before. */
void waldo__tool_call_take_media(waldo_tool_call *call, waldo__media_list *ret_media);

/* Give up the reference of the maker. */
void waldo__tool_call_release(waldo_tool_call *call);

/*
 * Its result is not wanted any more: on_cancel is called, later ends are ignored, ended does not
 * come.
 */
void waldo__tool_call_cancel(waldo_tool_call *call);

/* ---- for built-in tools ---- */

waldo_sandbox *waldo__tool_call_sandbox(const waldo_tool_call *call);
waldo__http *waldo__tool_call_http(const waldo_tool_call *call);
size_t waldo__tool_call_max_output(const waldo_tool_call *call);
void waldo__tool_call_output(waldo_tool_call *call, int stream, waldo_str bytes);

/* Room for a tool's own state, freed with the call; NULL when out of memory. Once. */
void *waldo__tool_call_state(waldo_tool_call *call, size_t size);

#endif

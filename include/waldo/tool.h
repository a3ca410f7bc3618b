/**
 * @file
 * Host tools: functions of the host that the model may call. They run in the host process with its
 * rights; arguments are checked against the parameter table before the call.
 */
#ifndef WALDO_TOOL_H
#define WALDO_TOOL_H

#include <waldo/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Immutable, atomic refcount. Remembers what is wrong with its options. */
typedef struct waldo_tool waldo_tool;

/** One call of a tool by the model. Refcounted; valid after its run is gone. */
typedef struct waldo_tool_call waldo_tool_call;

typedef int32_t waldo_type;
enum {
    WALDO_STRING = 1,
    WALDO_INTEGER, /* exact within +-2^53 */
    WALDO_NUMBER,
    WALDO_BOOLEAN,
    WALDO_STRING_LIST,
    WALDO_JSON /* any value, unchecked */
};

/** One parameter. Required unless optional is set. */
typedef struct waldo_param {
    const char *name; /* of the table's last row: NULL */
    waldo_type type;
    int32_t optional;          /* 1: may be left out or null */
    const char *about;         /* for the model; may be NULL */
    const char *const *one_of; /* allowed strings, NULL-terminated; NULL: any */
} waldo_param;

#define WALDO_PARAMS(...) ((const waldo_param[]){ __VA_ARGS__, { .name = NULL } })

/** What a tool promises; combined with |. */
enum {
    WALDO_PARALLEL_SAFE = 1u << 0, /* may run beside other calls; else calls of it take turns */
    WALDO_IDEMPOTENT = 1u << 1,    /* running it twice harms nothing */
    WALDO_READ_ONLY = 1u << 2,     /* changes nothing */
    WALDO_NEEDS_APPROVAL = 1u << 3 /* the host must agree to each call */
};

/**
 * Does the work of one call. Ends it by waldo_tool_call_reply() or _fail(), or returns
 * WALDO_PENDING and does so later from any thread after taking a reference.
 *
 * @param userdata  as in the tool's options
 * @param call      borrowed for the call; take a reference to keep it
 * @return WALDO_OK after a reply or fail, WALDO_PENDING, or a failure, which ends the turn as
 *         failed
 * Called on the driving thread, from dispatch.
 */
typedef waldo_status (*waldo_tool_fn)(void *userdata, waldo_tool_call *call);

/** Zero means "default" for every member. */
typedef struct waldo_tool_options {
    uint32_t size;             /* sizeof(waldo_tool_options) */
    uint32_t flags;            /* WALDO_PARALLEL_SAFE, ... */
    const char *name;          /* [a-zA-Z0-9_-]{1,64}; copied */
    const char *about;         /* for the model; copied */
    const waldo_param *params; /* copied; NULL: no parameters, unless schema_json is set */
    const char *schema_json; /* instead of params: JSON schema, checked in the subset of the docs */
    waldo_tool_fn call;
    void *userdata;                  /* given to call; must outlive the tool */
    void (*destroy)(void *userdata); /* when the tool is freed, on the last holder's thread */
    int64_t timeout_ms;              /* the model gets an error after so long; 0: no limit */
    const char *freeform; /* the one required parameter, a string: models whose API has such tools
                             give it as plain text instead of JSON; copied; NULL: none */
    const char *grammar;  /* of that text, in the syntax of Lark; copied; NULL: any text */
} waldo_tool_options;

/** A tool made in place, for WALDO_TOOLS(). */
#define WALDO_TOOL(...)                                                                            \
    waldo_tool_new(&(waldo_tool_options){ .size = sizeof(waldo_tool_options), __VA_ARGS__ })

/** A list of tools for an agent's options, which takes one reference of each. */
#define WALDO_TOOLS(...) ((waldo_tool *const[]){ __VA_ARGS__, NULL })

/** The built-in web_fetch tool with its allow-list, such as "docs.python.org, *.wikipedia.org". */
#define WALDO_WEB_FETCH(hosts) waldo_tool_web_fetch(hosts)

/**
 * Make a tool. What is wrong with the options is remembered and reported by the agent.
 *
 * @param options  copied
 * @return one reference, release with waldo_tool_unref(); never NULL: out of memory is remembered
 *         too
 * Thread: any. Since: 0.1.
 */
WALDO_API waldo_tool *waldo_tool_new(const waldo_tool_options *options);

/**
 * Make the web_fetch tool: GET of an https page by the host, for agents whose sandbox has no
 * network.
 *
 * @param hosts  comma-separated names, exact or "*.example.com" (strict subdomains); copied.
 *               Addresses that resolve to loopback, private or link-local ranges are refused
 * @return as waldo_tool_new()
 * Thread: any. Since: 0.1.
 */
WALDO_API waldo_tool *waldo_tool_web_fetch(const char *hosts);

/**
 * @param tool  gets one more reference; NULL is accepted
 * @return tool
 * Thread: any. Since: 0.1.
 */
WALDO_API waldo_tool *waldo_tool_ref(waldo_tool *tool);

/**
 * @param tool  loses one reference; NULL is a no-op
 * Thread: any. Since: 0.1.
 */
WALDO_API void waldo_tool_unref(waldo_tool *tool);

/**
 * @param tool  borrowed for the call
 * @return what is wrong with it, borrowed until the tool is freed; NULL when nothing is
 * Thread: any. Since: 0.1.
 */
WALDO_API const waldo_error *waldo_tool_error(const waldo_tool *tool);

/**
 * @param call  borrowed for the call
 * @return the call's id as the model gave it, borrowed until the call is freed
 * Thread: any. Since: 0.1.
 */
WALDO_API const char *waldo_tool_call_id(const waldo_tool_call *call);

/**
 * @param call  borrowed for the call
 * @return a key that is the same when this logical call is tried again and differs for every other,
 *         borrowed until the call is freed
 * Thread: any. Since: 0.1.
 */
WALDO_API const char *waldo_tool_call_key(const waldo_tool_call *call);

/**
 * @param call  borrowed for the call
 * @return the tool's name, borrowed until the call is freed
 * Thread: any. Since: 0.1.
 */
WALDO_API const char *waldo_tool_call_name(const waldo_tool_call *call);

/**
 * @param call  borrowed for the call
 * @return the arguments as JSON text, borrowed until the call is freed
 * Thread: any. Since: 0.1.
 */
WALDO_API waldo_str waldo_tool_call_args(const waldo_tool_call *call);

/**
 * @param call  borrowed for the call
 * @param name  of a parameter
 * @return 1 when it is there and not null
 * Thread: any. Since: 0.1.
 */
WALDO_API int waldo_tool_call_has(const waldo_tool_call *call, const char *name);

/**
 * @param call  borrowed for the call
 * @param name  of a WALDO_STRING parameter
 * @return its text (it holds no NUL byte), borrowed until the call is freed; NULL when left out
 * Thread: any. Since: 0.1.
 */
WALDO_API const char *waldo_tool_call_str(const waldo_tool_call *call, const char *name);

/**
 * @param call      borrowed for the call
 * @param name      of a WALDO_INTEGER parameter
 * @param fallback  returned when it was left out
 * @return its value
 * Thread: any. Since: 0.1.
 */
WALDO_API int64_t waldo_tool_call_int(const waldo_tool_call *call, const char *name,
                                      int64_t fallback);

/**
 * @param call      borrowed for the call
 * @param name      of a WALDO_NUMBER or WALDO_INTEGER parameter
 * @param fallback  returned when it was left out
 * @return its value
 * Thread: any. Since: 0.1.
 */
WALDO_API double waldo_tool_call_num(const waldo_tool_call *call, const char *name,
                                     double fallback);

/**
 * @param call      borrowed for the call
 * @param name      of a WALDO_BOOLEAN parameter
 * @param fallback  returned when it was left out
 * @return 0 or 1
 * Thread: any. Since: 0.1.
 */
WALDO_API int waldo_tool_call_bool(const waldo_tool_call *call, const char *name, int fallback);

/**
 * @param call   borrowed for the call
 * @param name   of a WALDO_STRING_LIST parameter
 * @param index  from 0
 * @return the text, borrowed until the call is freed; NULL past the end
 * Thread: any. Since: 0.1.
 */
WALDO_API const char *waldo_tool_call_str_at(const waldo_tool_call *call, const char *name,
                                             size_t index);

/**
 * Give the model an image together with the result; before the call is ended. Where a model API has
 * no images in results, it is shown right behind them. A call that fails loses its images.
 *
 * @param call   borrowed for the call
 * @param bytes  of a PNG, JPEG, GIF or WebP file; copied
 * @retval WALDO_OK      taken
 * @retval WALDO_EINVAL  not such a file
 * @retval WALDO_ETOOBIG larger than 10 MiB, or with those before it more than 32 MiB or 20 images
 * @retval WALDO_ECLOSED ended before, cancelled, or the run is gone
 * @retval WALDO_ENOMEM, WALDO_EFORKED
 * Thread: any. Since: 0.1.
 */
WALDO_API waldo_status waldo_tool_call_add_image(waldo_tool_call *call, waldo_str bytes);

/**
 * End the call with a result. A call ends once; a later reply or fail returns WALDO_ECLOSED.
 *
 * @param call    borrowed for the call
 * @param format  printf format of the text for the model
 * @retval WALDO_OK      taken
 * @retval WALDO_ECLOSED ended before, cancelled, or the run is gone
 * @retval WALDO_ENOMEM  the text could not be kept: the turn ends as failed
 * @retval WALDO_EFORKED called in a forked child
 * Thread: any. Since: 0.1.
 */
WALDO_API waldo_status waldo_tool_call_reply(waldo_tool_call *call, const char *format, ...)
    WALDO_PRINTF(2, 3);

/**
 * waldo_tool_call_reply() with bytes; what is not valid UTF-8 reaches the model as U+FFFD.
 *
 * @param call  borrowed for the call
 * @param text  copied
 * @retval WALDO_OK      taken
 * @retval WALDO_ECLOSED ended before, cancelled, or the run is gone
 * @retval WALDO_ENOMEM  the text could not be kept: the turn ends as failed
 * @retval WALDO_EFORKED called in a forked child
 * Thread: any. Since: 0.1.
 */
WALDO_API waldo_status waldo_tool_call_reply_text(waldo_tool_call *call, waldo_str text);

/**
 * End the call with an error text that the model reads and can act on.
 *
 * @param call    borrowed for the call
 * @param format  printf format of the text
 * @retval WALDO_OK      taken
 * @retval WALDO_ECLOSED ended before, cancelled, or the run is gone
 * @retval WALDO_ENOMEM  the text could not be kept: the turn ends as failed
 * @retval WALDO_EFORKED called in a forked child
 * Thread: any. Since: 0.1.
 */
WALDO_API waldo_status waldo_tool_call_fail(waldo_tool_call *call, const char *format, ...)
    WALDO_PRINTF(2, 3);

/**
 * End the call and the turn: the run comes to rest as failed with this status.
 *
 * @param call    borrowed for the call
 * @param status  a failure
 * @retval WALDO_OK      taken
 * @retval WALDO_ECLOSED ended before, cancelled, or the run is gone
 * Thread: any. Since: 0.1.
 */
WALDO_API waldo_status waldo_tool_call_abort(waldo_tool_call *call, waldo_status status);

/**
 * @param call  borrowed for the call
 * @return 1 when its result is no longer wanted
 * Thread: any. Since: 0.1.
 */
WALDO_API int waldo_tool_call_cancelled(const waldo_tool_call *call);

/**
 * Be told when the result is no longer wanted.
 *
 * @param call      exclusive
 * @param fn        called at most once, from dispatch on the driving thread; NULL takes it back
 * @param userdata  given to fn
 * Thread: driving, from inside the tool's function. Since: 0.1.
 */
WALDO_API void waldo_tool_call_on_cancel(waldo_tool_call *call, void (*fn)(void *userdata),
                                         void *userdata);

/** What waldo_tool_call_fetch() got. */
typedef void (*waldo_fetch_fn)(void *userdata, waldo_status status, int http_status, waldo_str body,
                               const waldo_error *error);

/**
 * GET a URL with the runtime's own transfers, without blocking; ended with the call when that is
 * cancelled.
 *
 * @param call       exclusive
 * @param url        https, or http to loopback; copied
 * @param max_bytes  longest body; more fails with WALDO_ETOOBIG
 * @param done       called exactly once, from dispatch; body and error are borrowed for the call
 * @param userdata   given to done
 * @retval WALDO_OK     started; done will be called
 * @retval WALDO_EINVAL not such a URL; done is not called
 * @retval WALDO_ECLOSED the call has ended; done is not called
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_status waldo_tool_call_fetch(waldo_tool_call *call, const char *url,
                                             size_t max_bytes, waldo_fetch_fn done, void *userdata);

/**
 * @param call  gets one more reference; NULL is accepted
 * @return call
 * Thread: any. Since: 0.1.
 */
WALDO_API waldo_tool_call *waldo_tool_call_ref(waldo_tool_call *call);

/**
 * @param call  loses one reference; NULL is a no-op. A call whose last reference goes without an
 *              end is answered to the model as failed
 * Thread: any. Since: 0.1.
 */
WALDO_API void waldo_tool_call_unref(waldo_tool_call *call);

#ifdef __cplusplus
}
#endif

#endif

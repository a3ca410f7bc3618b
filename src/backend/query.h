/*
 * What a provider is asked without a machine: does the key work, which sandboxes are ours, end one
 * of them. It decides, and the backend asks its provider.
 */
#ifndef WALDO_BACKEND_QUERY_H
#define WALDO_BACKEND_QUERY_H

#include "backend/finder.h"
#include "loop/loop.h"

typedef struct waldo__query waldo__query;

typedef struct waldo__query_fns {
    const char *backend; /* its name, for errors */
    const char *key;     /* name of its key in the host's source of keys */
    size_t size;         /* of what begins with a waldo__query, and is zero when init is called */
    waldo_status (*init)(waldo__query *query, const waldo_backend_spec *spec,
                         waldo_error **ret_err);
    void (*list)(waldo__query *query, waldo_str next); /* a page; then waldo__query_listed() */
    void (*inspect)(waldo__query *query);              /* of its id; then _inspected() */
    void (*end)(waldo__query *query);                  /* of its id; then _ended() */
    void (*free)(waldo__query *query);                 /* what init made, if that failed, too */
} waldo__query_fns;

struct waldo__query {
    const waldo__query_fns *fns;
    const waldo_backend_env *env;
    int64_t deadline_ns;
    waldo_backend_id_fn each; /* NULL: not one is to be told of */
    unsigned pages;
    int probing;
    waldo_backend_done_fn done;
    void *userdata;
    waldo__task task; /* of done, of what was not asked for */
    waldo_status status;
    waldo_error *error;
    char id[WALDO__WORD_MAX]; /* of the one to end */
};

/* The ops of a backend are these with its own fns. spec may be NULL. */
void waldo__query_check(const waldo__query_fns *fns, const waldo_backend_env *env,
                        const waldo_backend_spec *spec, const waldo_backend_call *call,
                        waldo_backend_done_fn done);
void waldo__query_list(const waldo__query_fns *fns, const waldo_backend_env *env,
                       const waldo_backend_call *call, waldo_backend_id_fn each,
                       waldo_backend_done_fn done);
void waldo__query_end(const waldo__query_fns *fns, const waldo_backend_env *env,
                      const waldo_backend_call *call, const char *id, waldo_backend_done_fn done);

/* One of a page, before listed: told only if it is ours. info lacks what its labels say. */
void waldo__query_see(waldo__query *query, waldo_sandbox_info *info,
                      const waldo__json_value *labels);

/* The answers to fns; from the run queue. next: what the next page is asked for by; empty: none. */
void waldo__query_listed(waldo__query *query, waldo_status status, const waldo_error *error,
                         waldo_str next);
void waldo__query_inspected(waldo__query *query, waldo_status status, const waldo_error *error,
                            const waldo__json_value *labels);
void waldo__query_ended(waldo__query *query, waldo_status status, const waldo_error *error);

#endif

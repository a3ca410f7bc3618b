/* The inside of a spec: each sandbox string with the options that hold for it. */
#ifndef WALDO_SANDBOX_SPEC_H
#define WALDO_SANDBOX_SPEC_H

#include <stdatomic.h>

#include "base/str.h"
#include "sandbox/registry.h"
#include "sandbox/sandbox.h"

enum {
    WALDO__SPEC_TEXT_MAX = 4096,   /* longest sandbox string */
    WALDO__SPEC_BACKENDS_MAX = 16, /* sandbox strings of one spec */
    WALDO__SPEC_LIST_MAX = 1024,   /* env and hosts */
    WALDO__SPEC_SPARES_MAX = 16,   /* machines opened ahead */
    WALDO__SPEC_NAME_MAX = 48      /* bytes of a machine's name */
};

#define WALDO__SPEC_LEASE_MAX_MS (INT64_C(49) * 24 * 3600 * 1000) /* 32 bits in the hand */

/* One sandbox string; what it does not say comes from the spec's options. */
typedef struct waldo__spec_entry {
    char *text; /* a copy; target and options point into it */
    const waldo_backend_ops *ops;
    waldo_str target;
    waldo_backend_option *options; /* the backend's own */
    size_t option_count;
    char **env; /* NULL-terminated */
    waldo_net net;
    waldo_isolation min_isolation;
    uint64_t memory_bytes;
    double cpus;
    uint32_t max_processes;
    uint32_t spares;
    int64_t command_timeout_ms;
    int64_t idle_ms;  /* 0: never */
    int64_t lease_ms; /* above 0: the machine outlives this process */
    int lease_asked;  /* by the user */
    int find;         /* "@NAME": never made */
    waldo_snapshots snapshots;
    char *name;   /* NULL: none */
    char *attach; /* NULL: none */
} waldo__spec_entry;

struct waldo_sandbox_spec {
    atomic_uint refs;
    waldo_error *error;
    char *notes;
    char *name;      /* of the options; NULL: none */
    char *attach;    /* the same */
    char *workspace; /* absolute; NULL: none */
    char **env;      /* of the options; NULL-terminated */
    char **hosts;
    char **backends; /* the strings as given */
    waldo__spec_entry *entries;
    size_t entry_count;
    waldo_sandbox_spec_options options; /* pointers lead into the members above */
};

/*
 * Parse one sandbox string over the spec's options; "@NAME" is one entry for each backend that
 * keeps machines, and then ops says which. What was made is freed with the entry.
 */
waldo_status waldo__spec_parse(const waldo_sandbox_spec *spec, const char *text,
                               const waldo_backend_ops *ops, waldo__spec_entry *entry,
                               waldo_error **ret_err);
void waldo__spec_entry_free(waldo__spec_entry *entry);

/* What a backend is told of an entry; scratch, owner and id are the caller's to add. */
waldo_backend_spec waldo__spec_for_backend(const waldo_sandbox_spec *spec,
                                           const waldo__spec_entry *entry);

const char *waldo__spec_net_note(const waldo__spec_entry *entry); /* a sentence for the model */

/* Lists of owned strings, NULL-terminated. NULL when out of memory. */
char **waldo__strings_copy(const char *const *strings, size_t *ret_count);
void waldo__strings_free(char **strings);

const char *waldo__isolation_name(waldo_isolation isolation);
const char *waldo__net_name(waldo_net net);
uint32_t waldo__net_bit(waldo_net net); /* what a backend needs for it; net is one of the levels */

#endif

/*
 * Which machine of a provider it is to be: a new one, the one of a name or of a saved state, or one
 * that somebody else made; and whose it is then. It decides, and the backend asks its provider.
 * Nothing is made a second time before its label was looked for.
 */
#ifndef WALDO_BACKEND_FINDER_H
#define WALDO_BACKEND_FINDER_H

#include "backend/labels.h"
#include "loop/loop.h"

enum { WALDO__WORD_MAX = 72 };

/* Each but the last three is answered, from the run queue, by a function of the same name below. */
typedef struct waldo__finder_fns {
    void (*create)(void *owner);
    void (*look)(void *owner, const char *label, const char *value); /* list those that have it */
    void (*inspect)(void *owner);                                    /* the one of finder->id */
    void (*reach)(void *owner);                                      /* the same, to use it */
    void (*discard)(void *owner, const char *id);                    /* end it; nobody waits */
    void (*ready)(void *owner);                                      /* it is there */
    void (*failed)(void *owner, waldo_status status, const waldo_error *error);
} waldo__finder_fns;

typedef struct waldo__finder {
    const char *backend; /* its name, for errors */
    waldo__loop *loop;
    const waldo__finder_fns *fns;
    void *owner;
    char *name;       /* NULL: none */
    int64_t lease_ms; /* 0: ends with this process */
    int lease_asked;
    int find;                 /* by its name; never made */
    int saved;                /* the one of a saved state */
    int foreign;              /* somebody else made it, and ends it */
    int again;                /* it was asked for a second time */
    int made;                 /* by this one */
    int reached;              /* it was there before */
    waldo__timer settle;      /* others may be making one of the same name: until theirs are seen */
    char id[WALDO__WORD_MAX]; /* the provider's; empty: none yet */
    char run[WALDO__WORD_MAX];  /* label of the machine */
    char mine[WALDO__WORD_MAX]; /* what it would be, had this one made it */
    char user[WALDO__WORD_MAX]; /* of the commands; the backend's, and kept in saved states */
    const char *label;          /* what is looked for */
    const char *value;
    struct {
        char id[WALDO__WORD_MAX];
        char run[WALDO__WORD_MAX];
        char since[WALDO__WORD_MAX];
        int64_t lease_ms;
    } best; /* of those that were seen */
} waldo__finder;

/* Bytes that waldo__finder_put_saved() wrote come from anywhere: nothing in them is believed. */
waldo_status waldo__finder_init(waldo__finder *finder, waldo__loop *loop, const char *backend,
                                const waldo__finder_fns *fns, void *owner,
                                const waldo_backend_spec *spec, waldo_str saved,
                                waldo_error **ret_err);
void waldo__finder_free(waldo__finder *finder);
void waldo__finder_put_saved(const waldo__finder *finder, waldo__buf *out);

void waldo__finder_begin(waldo__finder *finder);
void waldo__finder_created(waldo__finder *finder, waldo_status status, const waldo_error *error);
/* One of a listing, before looked; since: text that orders by age. */
void waldo__finder_see(waldo__finder *finder, waldo_str id, waldo_str since,
                       const waldo__json_value *labels);
void waldo__finder_looked(waldo__finder *finder, waldo_status status, const waldo_error *error);
void waldo__finder_inspected(waldo__finder *finder, waldo_status status, const waldo_error *error,
                             const waldo__json_value *labels);
void waldo__finder_reached(waldo__finder *finder, waldo_status status, const waldo_error *error);

/* ASCII letters, digits, "-" and "_", safe in every path and URL; 0: it is none, and to stays. */
int waldo__take_word(char to[WALDO__WORD_MAX], waldo_str word);

#endif

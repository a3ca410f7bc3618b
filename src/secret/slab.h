/* What the slab and the scrubber share. Private to src/secret. */
#ifndef WALDO_SECRET_SLAB_H
#define WALDO_SECRET_SLAB_H

#include "base/vec.h"
#include "secret/forms.h"
#include "secret/secret.h"

typedef struct waldo__secret {
    char *name;
    size_t at; /* in the slab */
    size_t len;
    int64_t expires_at; /* wall clock, seconds; 0 = never */
    int current;        /* 0: replaced by a newer value, still looked for in text */
} waldo__secret;

struct waldo__secrets {
    unsigned char *slab; /* without access, except between the two calls below */
    size_t size;
    size_t used;
    struct {
        WALDO__VEC(waldo__secret);
    } all; /* oldest first, in the order of the slab */
    waldo__form_filter filter;
};

void waldo__slab_open(const waldo__secrets *secrets); /* to read */
void waldo__slab_close(const waldo__secrets *secrets);

#endif

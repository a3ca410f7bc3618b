/* Images of items: what counts as one, and lists of them. Pure. */
#ifndef WALDO_TRANSCRIPT_MEDIA_H
#define WALDO_TRANSCRIPT_MEDIA_H

#include "base/vec.h"
#include "json/json.h"
#include <waldo/sys/model.h>

enum {
    WALDO__MEDIA_MAX = 10 << 20,       /* bytes of one image */
    WALDO__MEDIA_TOTAL_MAX = 32 << 20, /* of those of one item */
    WALDO__MEDIA_COUNT_MAX = 20        /* images of one item */
};

/* Owned; starts zeroed. */
typedef struct waldo__media_list {
    WALDO__VEC(waldo_media);
    size_t bytes; /* of the images themselves */
} waldo__media_list;

/* What the first bytes of a file say it is, such as "image/png"; NULL: no image for a model. */
const char *waldo__media_mime(waldo_str bytes);

/*
 * Add an image. WALDO_EINVAL: it is none of PNG, JPEG, GIF, WebP; WALDO_ETOOBIG: it, or what there
 * is with it; WALDO_ENOMEM. The list stays as it was then.
 */
waldo_status waldo__media_add(waldo__media_list *list, waldo_str bytes);

/* Copies into an empty list; what was copied is to be freed in any case. */
waldo_status waldo__media_copy(waldo__media_list *to, const waldo_media *media, size_t count);
void waldo__media_free(waldo__media_list *list);

/* Write the member "media" of an object, unless there is none. */
void waldo__media_write(waldo__json_writer *jw, const waldo_media *media, size_t count);

#endif

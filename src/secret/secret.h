/*
 * Secrets: one guarded slab per runtime (the only code that touches sodium), lookup by name, and
 * the scrubber that replaces every registered value, and its base64, hex and URL forms, in what
 * leaves.
 */
#ifndef WALDO_SECRET_SECRET_H
#define WALDO_SECRET_SECRET_H

#include "base/base64.h"
#include "base/buf.h"
#include <waldo/keys.h>
#include <waldo/sys/error.h>

typedef struct waldo__secrets waldo__secrets;

/* Initialises libsodium once for the process. WALDO_ESETUP when that fails. */
waldo_status waldo__secrets_new(waldo__secrets **ret_secrets, waldo_error **ret_err);
void waldo__secrets_free(waldo__secrets *secrets); /* wipes */

/*
 * Keep a value under a name, replacing an older one, and register it (and the older one, still)
 * with the scrubber; when the slab, which grows to 64 KiB, is full, the oldest replaced values are
 * forgotten.
 * WALDO_ETOOBIG when that is not enough, WALDO_ENOMEM. Values under 8 bytes are kept but not
 * scrubbed.
 */
waldo_status waldo__secrets_put(waldo__secrets *secrets, const char *name, waldo_str value,
                                int64_t expires_at);

/* Nobody asks for it any more: it may be forgotten as a replaced value may. */
void waldo__secrets_retire(waldo__secrets *secrets, const char *name);

/*
 * Ask a source for a key unless it is held and fresh; renew forces it. WALDO_EAUTH names the key.
 */
waldo_status waldo__secrets_fetch(waldo__secrets *secrets, const waldo_keys *source,
                                  const char *name, int renew, waldo_error **ret_err);

/* Append a kept value to a buffer, which the caller wipes. WALDO_ENOTFOUND. */
waldo_status waldo__secrets_append(waldo__secrets *secrets, const char *name, waldo__buf *out);

/* 1 when text holds a registered value in any form. */
int waldo__secrets_found(const waldo__secrets *secrets, waldo_str text);

/* Where one stands in a text, and its name, borrowed. */
typedef struct waldo__secret_hit {
    size_t at;
    size_t len;
    const char *name;
} waldo__secret_hit;

/* 1, with the first of whole text at or behind from. */
int waldo__secrets_find(const waldo__secrets *secrets, waldo_str text, size_t from,
                        waldo__secret_hit *ret_hit);

/*
 * Append text with every registered value replaced by "[NAME]". Whole text at once. secrets may be
 * NULL here, above and below: nothing is registered then.
 */
waldo_status waldo__scrub(const waldo__secrets *secrets, waldo_str text, waldo__buf *out);

/*
 * A stream: holds back what may be the front of a form, at most the longest form's length minus
 * one, so that a split value is still found. A failure sticks.
 */
typedef struct waldo__scrubber {
    const waldo__secrets *secrets;
    waldo__buf held;
} waldo__scrubber;

void waldo__scrubber_init(waldo__scrubber *scrubber, const waldo__secrets *secrets);
waldo_status waldo__scrubber_feed(waldo__scrubber *scrubber, waldo_str bytes, waldo__buf *out);
waldo_status waldo__scrubber_finish(waldo__scrubber *scrubber, waldo__buf *out);
void waldo__scrubber_free(waldo__scrubber *scrubber);

/* SHA-256, for hashes of arguments and content. */
void waldo__sha256(waldo_str bytes, unsigned char ret_hash[32]);
void waldo__sha256_hex(waldo_str bytes, char ret_hex[65]);

#endif

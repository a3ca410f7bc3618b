/* Finding registered values in text, whole or as a stream. */
#include "secret/slab.h"

enum { STRIDE = WALDO__FORM_STRIDE };

/* Without a name: from here on the text may be the front of a form. */
typedef waldo__secret_hit hit;

/* With the slab open: is there a form of any value at this place? The longest one counts. */
static int match_at(const waldo__secrets *secrets, waldo_str text, size_t at, int final, hit *ret)
{
    int partial = 0;

    *ret = (hit){ .at = at };
    for (size_t i = 0; i < secrets->all.count; i++) {
        const waldo__secret *secret = &secrets->all.at[i];
        size_t len = waldo__form_match(secrets->slab + secret->at, secret->len, text.ptr + at,
                                       text.len - at, &partial);

        if (len > ret->len) {
            ret->len = len;
            ret->name = secret->name;
        }
    }
    /* More text might make it a longer one: where a stream is split must not matter. */
    if (partial && !final) {
        ret->name = NULL;
        return 1;
    }
    return ret->name != NULL;
}

/* May a form begin here, as far as the filter can tell from its first pairs? */
static int may_begin(const waldo__form_filter *filter, waldo_str text, size_t at)
{
    size_t end = text.len - at > STRIDE ? at + STRIDE : text.len - 1;

    if (!waldo__form_first(filter, text.ptr[at])) {
        return 0;
    }
    for (; at < end; at++) {
        if (!waldo__form_pair(filter, text.ptr + at)) {
            return 0;
        }
    }
    return 1;
}

/* With the slab open if need be: the first hit among the starts that one probe stands for. */
static int find_near(const waldo__secrets *secrets, waldo_str text, size_t probe, int final,
                     int *open, hit *ret)
{
    for (size_t at = probe + 1 - STRIDE; at <= probe; at++) {
        if (!may_begin(&secrets->filter, text, at)) {
            continue;
        }
        if (!*open) {
            waldo__slab_open(secrets);
            *open = 1;
        }
        if (match_at(secrets, text, at, final, ret)) {
            return 1;
        }
    }
    return 0;
}

/*
 * The first hit at or after from. Every form that begins at p shows the filter one of its first
 * pairs at each of p to p + STRIDE - 1, so it is enough to look at every STRIDE-th place. The slab
 * is opened at most once, and only for a start whose first pairs are all in the filter.
 */
static int find_hit(const waldo__secrets *secrets, waldo_str text, size_t from, int final, hit *ret)
{
    size_t probe = from + STRIDE - 1;
    int open = 0, found = 0;

    for (; !found && probe + 1 < text.len; probe += STRIDE) {
        if (waldo__form_pair(&secrets->filter, text.ptr + probe)) {
            found = find_near(secrets, text, probe, final, &open, ret);
        }
    }
    if (open) {
        waldo__slab_close(secrets);
    }
    /* Too near to the end for a probe, and so for a whole form, but perhaps the front of one. */
    for (size_t at = probe + 1 - STRIDE; !found && !final && at < text.len; at++) {
        if (may_begin(&secrets->filter, text, at)) {
            *ret = (hit){ .at = at };
            found = 1;
        }
    }
    return found;
}

/* Append the text with its values replaced; gives where the part begins that must wait. */
static size_t scrub(const waldo__secrets *secrets, waldo_str text, int final, waldo__buf *out)
{
    size_t done = 0;
    hit found;

    if (secrets == NULL) {
        waldo__buf_add_str(out, text);
        return text.len;
    }
    while (find_hit(secrets, text, done, final, &found)) {
        waldo__buf_add(out, text.ptr + done, found.at - done);
        if (found.name == NULL) {
            return found.at;
        }
        waldo__buf_printf(out, "[%s]", found.name);
        done = found.at + found.len;
    }
    waldo__buf_add(out, text.ptr + done, text.len - done);
    return text.len;
}

int waldo__secrets_find(const waldo__secrets *secrets, waldo_str text, size_t from,
                        waldo__secret_hit *ret_hit)
{
    return secrets != NULL && find_hit(secrets, text, from, 1, ret_hit);
}

int waldo__secrets_found(const waldo__secrets *secrets, waldo_str text)
{
    hit found;

    return waldo__secrets_find(secrets, text, 0, &found);
}

waldo_status waldo__scrub(const waldo__secrets *secrets, waldo_str text, waldo__buf *out)
{
    scrub(secrets, text, 1, out);
    return out->status;
}

void waldo__scrubber_init(waldo__scrubber *scrubber, const waldo__secrets *secrets)
{
    *scrubber = (waldo__scrubber){ .secrets = secrets, .held = WALDO__BUF_WIPED(SIZE_MAX / 4) };
}

/* Scrub one piece and keep what must wait. */
static waldo_status feed(waldo__scrubber *scrubber, waldo_str text, waldo__buf *out)
{
    size_t done = scrub(scrubber->secrets, text, 0, out);

    if (waldo__buf_add(&scrubber->held, text.ptr + done, text.len - done) != WALDO_OK) {
        return scrubber->held.status;
    }
    return out->status;
}

waldo_status waldo__scrubber_feed(waldo__scrubber *scrubber, waldo_str bytes, waldo__buf *out)
{
    waldo__buf both = WALDO__BUF_WIPED(SIZE_MAX / 4);
    waldo_status status;

    if (scrubber->held.status != WALDO_OK) {
        return scrubber->held.status;
    }
    if (scrubber->held.len == 0) {
        return feed(scrubber, bytes, out);
    }
    /* Reserved at once: what was held is copied once. */
    if (waldo__buf_reserve(&both, scrubber->held.len + bytes.len) == NULL) {
        return scrubber->held.status = both.status;
    }
    waldo__buf_add_str(&both, waldo__buf_str(&scrubber->held));
    waldo__buf_add_str(&both, bytes);
    waldo__buf_free(&scrubber->held);
    status = feed(scrubber, waldo__buf_str(&both), out);
    waldo__buf_free(&both);
    return status;
}

waldo_status waldo__scrubber_finish(waldo__scrubber *scrubber, waldo__buf *out)
{
    waldo_status status = scrubber->held.status;

    if (status == WALDO_OK) {
        status = waldo__scrub(scrubber->secrets, waldo__buf_str(&scrubber->held), out);
    }
    waldo__buf_free(&scrubber->held);
    return status;
}

void waldo__scrubber_free(waldo__scrubber *scrubber)
{
    waldo__buf_free(&scrubber->held);
}

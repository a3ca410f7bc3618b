#include "secret/secret.h"

#include <sodium.h>

#include "base/clock.h"
#include "base/error.h"
#include "secret/slab.h"

/* The first fills a page beside what libsodium keeps before it; opening costs by the page. */
enum { SLAB_FIRST = 4096 - 16, SLAB_MAX = 64 * 1024 };

waldo_status waldo__secrets_new(waldo__secrets **ret_secrets, waldo_error **ret_err)
{
    waldo__secrets *secrets;

    if (sodium_init() < 0) {
        return waldo_error_set(ret_err, WALDO_ESETUP, WALDO_CLASS_SYSTEM,
                               "libsodium could not be initialised");
    }
    secrets = WALDO__NEW(waldo__secrets);
    if (secrets == NULL) {
        return waldo__error_nomem(ret_err);
    }
    secrets->size = SLAB_FIRST;
    secrets->slab = sodium_malloc(secrets->size);
    if (secrets->slab == NULL) {
        waldo__free(secrets);
        return waldo__error_nomem(ret_err);
    }
    waldo__slab_close(secrets);
    *ret_secrets = secrets;
    return WALDO_OK;
}

void waldo__secrets_free(waldo__secrets *secrets)
{
    if (secrets == NULL) {
        return;
    }
    sodium_free(secrets->slab); /* which wipes it */
    for (size_t i = 0; i < secrets->all.count; i++) {
        waldo__free(secrets->all.at[i].name);
    }
    WALDO__VEC_FREE(&secrets->all);
    sodium_memzero(&secrets->filter, sizeof secrets->filter);
    waldo__free(secrets);
}

void waldo__slab_open(const waldo__secrets *secrets)
{
    sodium_mprotect_readonly(secrets->slab);
}

void waldo__slab_close(const waldo__secrets *secrets)
{
    sodium_mprotect_noaccess(secrets->slab);
}

static waldo__secret *find(const waldo__secrets *secrets, const char *name)
{
    for (size_t i = 0; i < secrets->all.count; i++) {
        waldo__secret *secret = &secrets->all.at[i];

        if (secret->current && strcmp(secret->name, name) == 0) {
            return secret;
        }
    }
    return NULL;
}

/* With the slab writable: forget one value and move the later ones down. */
static void drop(waldo__secrets *secrets, size_t index)
{
    waldo__secret *secret = &secrets->all.at[index];
    size_t at = secret->at, len = secret->len;

    waldo__free(secret->name);
    memmove(secrets->slab + at, secrets->slab + at + len, secrets->used - at - len);
    secrets->used -= len;
    sodium_memzero(secrets->slab + secrets->used, len);
    secrets->all.count--;
    memmove(secret, secret + 1, (secrets->all.count - index) * sizeof *secret);
    for (size_t i = index; i < secrets->all.count; i++) {
        secrets->all.at[i].at -= len;
    }
}

/* With the slab writable: one that has room for so many bytes takes its place. */
static waldo_status grow(waldo__secrets *secrets, size_t len)
{
    size_t size = secrets->size;
    unsigned char *slab;

    while (size < len && size < SLAB_MAX) {
        size = 2 * size < SLAB_MAX ? 2 * size : SLAB_MAX;
    }
    if (size == secrets->size) {
        return WALDO_OK;
    }
    slab = sodium_malloc(size);
    if (slab == NULL) {
        return WALDO_ENOMEM;
    }
    memcpy(slab, secrets->slab, secrets->used);
    sodium_free(secrets->slab);
    secrets->slab = slab;
    secrets->size = size;
    return WALDO_OK;
}

/*
 * With the slab writable: a value of this length must fit. Replaced values make room, oldest first,
 * once it cannot grow: short-lived tokens would fill the slab of a long-lived process.
 */
static waldo_status make_room(waldo__secrets *secrets, size_t len)
{
    size_t index = 0, current = 0;
    waldo_status status;

    for (size_t i = 0; i < secrets->all.count; i++) {
        current += secrets->all.at[i].current ? secrets->all.at[i].len : 0;
    }
    if (len > SLAB_MAX - current) {
        return WALDO_ETOOBIG;
    }
    status = grow(secrets, secrets->used + len);
    while (status == WALDO_OK && secrets->size - secrets->used < len) {
        if (secrets->all.at[index].current) {
            index++;
        } else {
            drop(secrets, index);
        }
    }
    return status;
}

/* With the slab writable: add a value at its end. */
static waldo_status add(waldo__secrets *secrets, const char *name, waldo_str value,
                        int64_t expires_at)
{
    char *copy;
    waldo__secret *old, *added;
    waldo_status status = make_room(secrets, value.len);

    if (status != WALDO_OK) {
        return status;
    }
    copy = waldo__strdup(name);
    added = copy != NULL ? WALDO__VEC_PUSH(&secrets->all) : NULL;
    if (added == NULL) {
        waldo__free(copy);
        return WALDO_ENOMEM;
    }
    old = find(secrets, name);
    if (old != NULL) {
        old->current = 0;
    }
    *added = (waldo__secret){ copy, secrets->used, value.len, expires_at, 1 };
    memcpy(secrets->slab + secrets->used, value.ptr, value.len);
    secrets->used += value.len;
    waldo__form_filter_add(&secrets->filter, secrets->slab + added->at, added->len);
    return WALDO_OK;
}

static int has_value(const waldo__secrets *secrets, const waldo__secret *secret, waldo_str value)
{
    return secret->len == value.len &&
           sodium_memcmp(secrets->slab + secret->at, value.ptr, value.len) == 0;
}

waldo_status waldo__secrets_put(waldo__secrets *secrets, const char *name, waldo_str value,
                                int64_t expires_at)
{
    waldo__secret *old = find(secrets, name);
    waldo_status status = WALDO_OK;

    sodium_mprotect_readwrite(secrets->slab);
    if (old != NULL && has_value(secrets, old, value)) {
        old->expires_at = expires_at;
    } else {
        status = add(secrets, name, value, expires_at);
    }
    waldo__slab_close(secrets);
    return status;
}

void waldo__secrets_retire(waldo__secrets *secrets, const char *name)
{
    waldo__secret *secret = find(secrets, name);

    if (secret != NULL) {
        secret->current = 0;
    }
}

waldo_status waldo__secrets_fetch(waldo__secrets *secrets, const waldo_keys *source,
                                  const char *name, int renew, waldo_error **ret_err)
{
    const waldo__secret *held = find(secrets, name);
    waldo_str value = { NULL, 0 };
    int64_t expires_at = 0;
    waldo_status status;

    if (held != NULL && !renew &&
        (held->expires_at == 0 || waldo__wall_ms() / 1000 < held->expires_at)) {
        return WALDO_OK;
    }
    if (source == NULL || source->get == NULL) {
        return waldo_error_set(ret_err, WALDO_EAUTH, WALDO_CLASS_USAGE,
                               "the key %s is needed, but no source of keys is set", name);
    }
    status = source->get(source->userdata, name, &value, &expires_at);
    if (status != WALDO_OK || value.len == 0) {
        return waldo_error_set(ret_err, WALDO_EAUTH, WALDO_CLASS_USAGE,
                               "the key %s is needed, but the source of keys has none (%s)", name,
                               waldo_status_text(status != WALDO_OK ? status : WALDO_ENOTFOUND));
    }
    status = waldo__secrets_put(secrets, name, value, expires_at);
    if (status == WALDO_ENOMEM) {
        return waldo__error_nomem(ret_err);
    }
    return status == WALDO_OK
               ? WALDO_OK
               : waldo_error_set(ret_err, status, WALDO_CLASS_USAGE,
                                 "the key %s does not fit: all keys together may have %d bytes",
                                 name, SLAB_MAX);
}

waldo_status waldo__secrets_append(waldo__secrets *secrets, const char *name, waldo__buf *out)
{
    const waldo__secret *secret = find(secrets, name);

    if (secret == NULL) {
        return WALDO_ENOTFOUND;
    }
    waldo__slab_open(secrets);
    waldo__buf_add(out, secrets->slab + secret->at, secret->len);
    waldo__slab_close(secrets);
    return out->status;
}

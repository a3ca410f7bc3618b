#include "transcript/media.h"

#include "base/base64.h"

/* Of WebP only what stands behind its length is told from other RIFF files. */
static const struct {
    const char *mime;
    const char *magic;
    size_t len;
    size_t at; /* of a second part */
    const char *more;
} types[] = {
    { "image/png", "\x89PNG\r\n\x1a\n", 8, 0, "" },
    { "image/jpeg", "\xff\xd8\xff", 3, 0, "" },
    { "image/gif", "GIF87a", 6, 0, "" },
    { "image/gif", "GIF89a", 6, 0, "" },
    { "image/webp", "RIFF", 4, 8, "WEBP" },
};

const char *waldo__media_mime(waldo_str bytes)
{
    for (size_t i = 0; i < WALDO__COUNT(types); i++) {
        size_t more = strlen(types[i].more);

        if (bytes.len >= types[i].len && bytes.len >= types[i].at + more &&
            memcmp(bytes.ptr, types[i].magic, types[i].len) == 0 &&
            memcmp(bytes.ptr + types[i].at, types[i].more, more) == 0) {
            return types[i].mime;
        }
    }
    return NULL;
}

waldo_status waldo__media_add(waldo__media_list *list, waldo_str bytes)
{
    waldo__buf text = WALDO__BUF_INIT(2 * (size_t)WALDO__MEDIA_MAX);
    const char *mime = waldo__media_mime(bytes);
    waldo_media *slot;
    waldo_status status;
    char *base64;
    size_t len;

    if (mime == NULL) {
        return WALDO_EINVAL;
    }
    if (bytes.len > WALDO__MEDIA_MAX || bytes.len > WALDO__MEDIA_TOTAL_MAX - list->bytes ||
        list->count == WALDO__MEDIA_COUNT_MAX) {
        return WALDO_ETOOBIG;
    }
    status = waldo__base64(bytes, &text);
    base64 = status == WALDO_OK ? waldo__buf_take(&text, &len) : NULL;
    waldo__buf_free(&text);
    slot = base64 != NULL ? WALDO__VEC_PUSH(list) : NULL;
    if (slot == NULL) {
        waldo__free(base64);
        return WALDO_ENOMEM;
    }
    *slot = (waldo_media){ .mime = waldo__str(mime), .base64 = waldo__strn(base64, len) };
    list->bytes += bytes.len;
    return WALDO_OK;
}

/* Types of an item that was made elsewhere are not ours to keep as pointers. */
static waldo_str static_mime(waldo_str mime)
{
    for (size_t i = 0; i < WALDO__COUNT(types); i++) {
        if (waldo__str_is(mime, types[i].mime)) {
            return waldo__str(types[i].mime);
        }
    }
    return WALDO__S("application/octet-stream");
}

waldo_status waldo__media_copy(waldo__media_list *to, const waldo_media *media, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char *base64 = waldo__strndup(media[i].base64.ptr, media[i].base64.len);
        waldo_media *slot = base64 != NULL ? WALDO__VEC_PUSH(to) : NULL;

        if (slot == NULL) {
            waldo__free(base64);
            return WALDO_ENOMEM;
        }
        *slot = (waldo_media){ .mime = static_mime(media[i].mime),
                               .base64 = waldo__strn(base64, media[i].base64.len) };
        to->bytes += media[i].base64.len / 4 * 3;
    }
    return WALDO_OK;
}

void waldo__media_free(waldo__media_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        waldo__free((char *)list->at[i].base64.ptr);
    }
    WALDO__VEC_FREE(list);
    list->bytes = 0;
}

void waldo__media_write(waldo__json_writer *jw, const waldo_media *media, size_t count)
{
    if (count == 0) {
        return;
    }
    waldo__jw_array(jw, "media");
    for (size_t i = 0; i < count; i++) {
        waldo__jw_object(jw, NULL);
        waldo__jw_str(jw, "mime", media[i].mime);
        waldo__jw_str(jw, "base64", media[i].base64);
        waldo__jw_end(jw, '}');
    }
    waldo__jw_end(jw, ']');
}

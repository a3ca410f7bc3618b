#include "codec/untar.h"

enum { META_MAX = 64 * 1024 };

/* Where the fields of a header are (POSIX pax, "ustar Interchange Format"). */
enum {
    AT_MODE = 100,
    AT_SIZE = 124,
    AT_MTIME = 136,
    AT_SUM = 148,
    AT_TYPE = 156,
    AT_LINK = 157,
    AT_MAGIC = 257,
    AT_PREFIX = 345,
    NAME_LEN = 100,
    PREFIX_LEN = 155,
    SUM_LEN = 8
};

void waldo__untar_init(waldo__untar *untar, const waldo__untar_fns *fns, void *userdata)
{
    *untar = (waldo__untar){ .fns = fns,
                             .userdata = userdata,
                             .text = WALDO__BUF_INIT(META_MAX),
                             .name = WALDO__BUF_INIT(WALDO__UNTAR_NAME_MAX),
                             .link = WALDO__BUF_INIT(WALDO__UNTAR_NAME_MAX) };
}

void waldo__untar_free(waldo__untar *untar)
{
    waldo__buf_free(&untar->text);
    waldo__buf_free(&untar->name);
    waldo__buf_free(&untar->link);
}

int waldo__untar_whole(const waldo__untar *untar)
{
    return untar->zeroes >= 2;
}

/* Octal digits between blanks and NULs; or, with the highest bit set, base 256 (GNU). */
static int get_number(const unsigned char *field, size_t len, uint64_t *ret_value)
{
    uint64_t value = 0;
    size_t i = 0;

    if ((field[0] & 0x80) != 0) {
        value = field[0] & 0x7f;
        for (i = 1; i < len; i++) {
            if (value >> 55 != 0) {
                return 0;
            }
            value = value << 8 | field[i];
        }
        *ret_value = value;
        return 1;
    }
    while (i < len && field[i] == ' ') {
        i++;
    }
    for (; i < len && field[i] >= '0' && field[i] <= '7'; i++) {
        value = value << 3 | (uint64_t)(field[i] - '0');
    }
    for (; i < len; i++) {
        if (field[i] != ' ' && field[i] != '\0') {
            return 0;
        }
    }
    *ret_value = value;
    return 1;
}

/* SECONDS[.FRACTION] of pax; what is before 1970, or is no time, counts as then. */
static int64_t get_seconds(waldo_str text)
{
    int64_t value = 0;

    waldo__str_int(waldo__slice(text.ptr, waldo__str_find(text, '.')), &value);
    return value > 0 ? value : 0;
}

/* GNU writes times before 1970 as negative numbers. */
static int get_mtime(const unsigned char *field, size_t len, int64_t *ret_value)
{
    uint64_t value = 0;

    if (field[0] != 0xff && !get_number(field, len, &value)) {
        return 0;
    }
    *ret_value = value < INT64_MAX ? (int64_t)value : 0;
    return 1;
}

static int sum_is_right(const unsigned char *block)
{
    uint64_t said = 0;
    uint32_t sum = 0;

    for (size_t i = 0; i < WALDO__UNTAR_BLOCK; i++) {
        sum += i >= AT_SUM && i < AT_SUM + SUM_LEN ? ' ' : block[i];
    }
    return get_number(block + AT_SUM, SUM_LEN, &said) && said == sum;
}

static waldo_str field_of(const unsigned char *field, size_t max)
{
    return waldo__strn((const char *)field, strnlen((const char *)field, max));
}

/* ---- what describes the next entry ---- */

/* One "LENGTH KEY=VALUE\n"; 0: it is none. */
static int take_record(waldo__untar *untar, waldo_str *rest)
{
    size_t blank = waldo__str_find(*rest, ' ');
    int64_t len = 0;
    waldo_str key;
    waldo_str value;
    size_t equals;
    int64_t number;

    if (blank == rest->len || !waldo__str_int(waldo__slice(rest->ptr, blank), &len) ||
        len < (int64_t)blank + 3 || (uint64_t)len > rest->len || rest->ptr[len - 1] != '\n') {
        return 0;
    }
    key = waldo__slice(rest->ptr + blank + 1, (size_t)len - blank - 2);
    equals = waldo__str_find(key, '=');
    if (equals == key.len) {
        return 0;
    }
    value = waldo__slice(key.ptr + equals + 1, key.len - equals - 1);
    key.len = equals;
    *rest = waldo__slice(rest->ptr + len, rest->len - (size_t)len);
    if (memchr(value.ptr, '\0', value.len) != NULL) {
        return !waldo__str_is(key, "path") && !waldo__str_is(key, "linkpath");
    }
    if (waldo__str_is(key, "path")) {
        waldo__buf_clear(&untar->name);
        untar->status = waldo__buf_add_str(&untar->name, value);
    } else if (waldo__str_is(key, "linkpath")) {
        waldo__buf_clear(&untar->link);
        untar->status = waldo__buf_add_str(&untar->link, value);
    } else if (waldo__str_is(key, "size")) {
        if (!waldo__str_int(value, &number) || number < 0) {
            return 0;
        }
        untar->size = (uint64_t)number;
        untar->has_size = 1;
    } else if (waldo__str_is(key, "mtime")) {
        untar->mtime_s = get_seconds(value);
        untar->has_mtime = 1;
    } else if (waldo__str_starts(key, "GNU.sparse.")) {
        untar->status = WALDO_ENOTSUP; /* its content is a map and pieces, not the file */
    }
    return 1;
}

/* It is whole now. */
static void take_meta(waldo__untar *untar)
{
    waldo_str text = waldo__buf_str(&untar->text);
    waldo__buf *to = untar->meta == 'K' ? &untar->link : &untar->name;

    untar->to = NULL;
    if (untar->meta == 'x') {
        while (untar->status == WALDO_OK && text.len > 0) {
            if (!take_record(untar, &text)) {
                untar->status = WALDO_EPROTO;
            }
        }
    } else if (untar->meta == 'L' || untar->meta == 'K') {
        waldo__buf_clear(to);
        untar->status = waldo__buf_add_str(to, waldo__slice(text.ptr, strnlen(text.ptr, text.len)));
    }
    waldo__buf_clear(&untar->text);
}

/* ---- headers ---- */

static waldo__untar_kind kind_of(char type)
{
    switch (type) {
    case '\0':
    case '0':
    case '7':
        return WALDO__UNTAR_FILE;
    case '1':
        return WALDO__UNTAR_HARD_LINK;
    case '2':
        return WALDO__UNTAR_LINK;
    case '5':
        return WALDO__UNTAR_FOLDER;
    default:
        return WALDO__UNTAR_OTHER;
    }
}

/* The name from the header; POSIX splits it, GNU uses the prefix for something else. */
static waldo_status plain_name(waldo__untar *untar)
{
    const unsigned char *block = untar->block;

    if (memcmp(block + AT_MAGIC, "ustar\0", 6) == 0 && block[AT_PREFIX] != '\0') {
        waldo__buf_add_str(&untar->name, field_of(block + AT_PREFIX, PREFIX_LEN));
        waldo__buf_putc(&untar->name, '/');
    }
    return waldo__buf_add_str(&untar->name, field_of(block, NAME_LEN));
}

static waldo_status give_entry(waldo__untar *untar, uint64_t size)
{
    const unsigned char *block = untar->block;
    waldo__untar_entry entry = { .kind = kind_of((char)block[AT_TYPE]), .size = size };
    uint64_t mode = 0;
    waldo_status status = WALDO_OK;

    if (!get_number(block + AT_MODE, 8, &mode) ||
        !get_mtime(block + AT_MTIME, 12, &entry.mtime_s)) {
        return WALDO_EPROTO;
    }
    if (untar->name.len == 0) {
        status = plain_name(untar);
    }
    if (status == WALDO_OK && untar->link.len == 0) {
        status = waldo__buf_add_str(&untar->link, field_of(block + AT_LINK, NAME_LEN));
    }
    entry.name = waldo__buf_str(&untar->name);
    entry.link = waldo__buf_str(&untar->link);
    entry.mode = (uint32_t)(mode & 07777);
    if (untar->has_mtime) {
        entry.mtime_s = untar->mtime_s;
    }
    if (status == WALDO_OK && entry.name.len == 0) {
        status = WALDO_EPROTO;
    }
    if (status == WALDO_OK) {
        status = untar->fns->entry(untar->userdata, &entry);
    }
    waldo__buf_clear(&untar->name);
    waldo__buf_clear(&untar->link);
    untar->has_size = untar->has_mtime = 0;
    return status;
}

static int is_zero(const unsigned char *block)
{
    for (size_t i = 0; i < WALDO__UNTAR_BLOCK; i++) {
        if (block[i] != 0) {
            return 0;
        }
    }
    return 1;
}

static waldo_status take_header(waldo__untar *untar)
{
    const unsigned char *block = untar->block;
    char type = (char)block[AT_TYPE];
    uint64_t size = 0;
    int meta = type == 'x' || type == 'g' || type == 'L' || type == 'K';
    waldo__untar_kind kind = kind_of(type);

    untar->have = 0;
    if (is_zero(block)) {
        untar->zeroes++;
        return WALDO_OK;
    }
    untar->zeroes = 0;
    if (type == 'S') {
        return WALDO_ENOTSUP;
    }
    if (!sum_is_right(block) || !get_number(block + AT_SIZE, 12, &size)) {
        return WALDO_EPROTO;
    }
    if (meta) {
        if (size > META_MAX) {
            return WALDO_ETOOBIG;
        }
        untar->meta = type;
        untar->to = &untar->text;
    } else {
        size = untar->has_size ? untar->size : size;
        /* Links and folders have no content, whatever their size says (POSIX pax). */
        size = kind == WALDO__UNTAR_LINK || kind == WALDO__UNTAR_FOLDER ||
                       kind == WALDO__UNTAR_HARD_LINK
                   ? 0
                   : size;
    }
    if (size > INT64_MAX) {
        return WALDO_EPROTO;
    }
    untar->left = size;
    untar->padding = (size_t)(-size % WALDO__UNTAR_BLOCK);
    if (meta) {
        return WALDO_OK;
    }
    return give_entry(untar, size);
}

/* Take some of the input; how much. */
static size_t step(waldo__untar *untar, waldo_str bytes)
{
    size_t len;

    if (untar->left > 0) {
        len = bytes.len < untar->left ? bytes.len : (size_t)untar->left;
        untar->left -= len;
        untar->status = untar->to != NULL
                            ? waldo__buf_add(untar->to, bytes.ptr, len)
                            : untar->fns->data(untar->userdata, waldo__slice(bytes.ptr, len));
        return len;
    }
    if (untar->to != NULL) {
        take_meta(untar);
        return 0;
    }
    if (untar->padding > 0) {
        len = bytes.len < untar->padding ? bytes.len : untar->padding;
        untar->padding -= len;
        return len;
    }
    len = WALDO__UNTAR_BLOCK - untar->have;
    len = bytes.len < len ? bytes.len : len;
    memcpy(untar->block + untar->have, bytes.ptr, len);
    untar->have += len;
    if (untar->have == WALDO__UNTAR_BLOCK) {
        untar->status = take_header(untar);
    }
    return len;
}

waldo_status waldo__untar_feed(waldo__untar *untar, waldo_str bytes)
{
    while (bytes.len > 0 && untar->status == WALDO_OK && !waldo__untar_whole(untar)) {
        size_t len = step(untar, bytes);

        bytes = waldo__slice(bytes.ptr + len, bytes.len - len);
    }
    return untar->status;
}

waldo_status waldo__untar_path(waldo_str name, waldo__buf *out)
{
    waldo_str rest = name;
    waldo_str part;

    if (name.len > 0 && name.ptr[0] == '/') {
        return WALDO_EPATH;
    }
    while (waldo__str_split(&rest, '/', &part)) {
        if (waldo__str_is(part, "..")) {
            return WALDO_EPATH;
        }
        if (part.len > 0 && !waldo__str_is(part, ".")) {
            waldo__buf_puts(out, out->len > 0 ? "/" : "");
            waldo__buf_add_str(out, part);
        }
    }
    return out->status;
}

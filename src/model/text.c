#include "model/text.h"

#include "model/shared.h"

/*
 * The mark for half a pair is U+FDD0, which is no character and so in no text, and the four digits
 * of its escape.
 */
#define MARK        "\xEF\xB7\x90"
#define REPLACEMENT "\xEF\xBF\xBD"

enum { MARK_LEN = 3, MARKED_LEN = 7, ESCAPE_LEN = 6 };

void waldo__model_text_init(waldo__model_text *text)
{
    *text = (waldo__model_text){ .text = WALDO__BUF_WIPED(WALDO__MODEL_EVENT_MAX) };
}

/* Four hexadecimal digits; -1 when they are not. */
static int parse_hex(const char *digits)
{
    int value = 0;

    for (int i = 0; i < 4; i++) {
        char byte = digits[i];
        int digit = byte >= '0' && byte <= '9'   ? byte - '0'
                    : byte >= 'a' && byte <= 'f' ? byte - 'a' + 10
                    : byte >= 'A' && byte <= 'F' ? byte - 'A' + 10
                                                 : -1;

        if (digit < 0) {
            return -1;
        }
        value = value * 16 + digit;
    }
    return value;
}

static int is_high(int value)
{
    return value >= 0xD800 && value < 0xDC00;
}

static int is_low(int value)
{
    return value >= 0xDC00 && value < 0xE000;
}

/* The value of an escape \uXXXX at a place; -1 when none stands there. */
static int escape_at(waldo_str text, size_t at)
{
    if (text.len - at < ESCAPE_LEN || text.ptr[at] != '\\' || text.ptr[at + 1] != 'u') {
        return -1;
    }
    return parse_hex(text.ptr + at + 2);
}

/* What replaces the escape at a place, whose length goes to *ret_len; NULL: nothing. */
static const char *mend_escape(waldo_str text, size_t at, size_t *ret_len)
{
    int value = escape_at(text, at);

    *ret_len = value < 0 ? 2 : ESCAPE_LEN;
    if (is_high(value) && at + ESCAPE_LEN <= text.len && is_low(escape_at(text, at + ESCAPE_LEN))) {
        *ret_len = 2 * ESCAPE_LEN;
        return NULL;
    }
    if (value == 0) {
        return REPLACEMENT;
    }
    return is_high(value) || is_low(value) ? MARK : NULL;
}

waldo_status waldo__model_text_mend(waldo_str *text, waldo__buf *scratch)
{
    size_t kept = 0, at = waldo__str_search(*text, WALDO__S("\\"), 0);
    int changed = 0;

    while (at < text->len) {
        size_t len;
        const char *instead = mend_escape(*text, at, &len);

        if (instead != NULL) {
            if (!changed) {
                waldo__buf_clear(scratch);
                changed = 1;
            }
            waldo__buf_add(scratch, text->ptr + kept, at - kept);
            waldo__buf_puts(scratch, instead);
            kept = at + (instead[2] == MARK[2] ? 2 : ESCAPE_LEN);
        }
        at = at + len < text->len ? waldo__str_search(*text, WALDO__S("\\"), at + len) : text->len;
    }
    if (!changed) {
        return WALDO_OK;
    }
    waldo__buf_add(scratch, text->ptr + kept, text->len - kept);
    *text = waldo__buf_str(scratch);
    return scratch->status;
}

/* The half that a mark at a place stands for; -1 when there is none. */
static int mark_at(waldo_str text, size_t at)
{
    int value;

    if (text.len - at < MARKED_LEN || memcmp(text.ptr + at, MARK, MARK_LEN) != 0) {
        return -1;
    }
    value = parse_hex(text.ptr + at + MARK_LEN);
    return is_high(value) || is_low(value) ? value : -1;
}

static waldo_status add_pair(waldo__buf *out, unsigned high, unsigned low)
{
    unsigned code = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
    char bytes[4] = { (char)(0xF0 | code >> 18), (char)(0x80 | (code >> 12 & 0x3F)),
                      (char)(0x80 | (code >> 6 & 0x3F)), (char)(0x80 | (code & 0x3F)) };

    return waldo__buf_add(out, bytes, sizeof bytes);
}

int waldo__model_text_has_mark(waldo_str piece)
{
    return waldo__str_find(piece, MARK[0]) < piece.len;
}

waldo_status waldo__model_text_plain(waldo_str piece, waldo__buf *out)
{
    size_t kept = 0, at = piece.len;

    if (waldo__model_text_has_mark(piece)) {
        at = waldo__str_search(piece, WALDO__S(MARK), 0);
    }
    while (at < piece.len) {
        if (mark_at(piece, at) >= 0) {
            waldo__buf_add(out, piece.ptr + kept, at - kept);
            waldo__buf_puts(out, REPLACEMENT);
            kept = at + MARKED_LEN;
            at = kept;
        } else {
            at += MARK_LEN;
        }
        at = waldo__str_search(piece, WALDO__S(MARK), at);
    }
    return waldo__buf_add(out, piece.ptr + kept, piece.len - kept);
}

waldo_status waldo__model_text_add(waldo__model_text *text, waldo_str piece)
{
    int half;

    if (piece.len == 0) {
        return WALDO_OK;
    }
    if (text->high != 0) {
        half = mark_at(piece, 0);
        if (is_low(half)) {
            add_pair(&text->text, text->high, (unsigned)half);
            piece = waldo__slice(piece.ptr + MARKED_LEN, piece.len - MARKED_LEN);
        } else {
            waldo__buf_puts(&text->text, REPLACEMENT);
        }
        text->high = 0;
    }
    if (piece.len >= MARKED_LEN) {
        half = mark_at(piece, piece.len - MARKED_LEN);
        if (is_high(half)) {
            text->high = (unsigned)half;
            piece.len -= MARKED_LEN;
        }
    }
    return waldo__model_text_plain(piece, &text->text);
}

waldo_status waldo__model_text_end(waldo__model_text *text)
{
    if (text->high != 0) {
        text->high = 0;
        waldo__buf_puts(&text->text, REPLACEMENT);
    }
    return text->text.status;
}

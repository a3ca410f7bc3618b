/* Where a body's strings are, which of them are one text, and what must be replaced in them. */
#include "agent/torn.h"

#include "json/json.h"

enum { DEPTH_MAX = 128, TEXTS_MAX = 256, TEXT_MAX = 512 * 1024 * 1024 };

/* The inside of one string. */
typedef struct piece {
    size_t at; /* in the body */
    size_t len;
    size_t text; /* which it is a part of */
    size_t from; /* in that text */
    size_t to;
} piece;

typedef struct text {
    uint64_t place;
    waldo__buf all;
    waldo__secret_hit hit; /* the first value that no piece has passed; without a name: none */
} text;

typedef struct search {
    const waldo__secrets *secrets;
    waldo_str body;
    size_t at;
    size_t depth;
    uint64_t places[DEPTH_MAX + 1]; /* of each open container; in it stands what numbers its part */
    unsigned char in_object[DEPTH_MAX + 1];
    uint64_t place; /* of the value that comes next */
    int is_number;  /* that value tells one part from another */
    struct {
        WALDO__VEC(text);
    } texts;
    struct {
        WALDO__VEC(piece);
    } pieces;
} search;

/* FNV-1a. */
static uint64_t place_below(uint64_t place, waldo_str word)
{
    for (size_t i = 0; i < word.len; i++) {
        place = (place ^ (unsigned char)word.ptr[i]) * UINT64_C(0x100000001b3);
    }
    return (place ^ 0xff) * UINT64_C(0x100000001b3);
}

/* ---- reading ---- */

/* A new text, unless there are more than any answer has: then what is left over is one. */
static text *find_text(search *s, uint64_t place)
{
    text *slot;

    for (size_t i = 0; i < s->texts.count; i++) {
        if (s->texts.at[i].place == place) {
            return &s->texts.at[i];
        }
    }
    if (s->texts.count == TEXTS_MAX) {
        return &s->texts.at[TEXTS_MAX - 1];
    }
    slot = WALDO__VEC_PUSH(&s->texts);
    if (slot != NULL) {
        *slot = (text){ .place = place, .all = WALDO__BUF_WIPED(TEXT_MAX) };
    }
    return slot;
}

/* What a string says; a wrong one stands for itself. quoted is the string with its quotes. */
static void add_decoded(waldo_str quoted, waldo__buf *out)
{
    waldo_str inside = waldo__slice(quoted.ptr + 1, quoted.len - 2);
    const waldo__json_limits limits = { .max_bytes = quoted.len, .repair_surrogates = 1 };
    waldo__json *doc = NULL;

    if (waldo__str_find(inside, '\\') < inside.len &&
        waldo__json_parse(quoted, &limits, &doc, NULL) == WALDO_OK) {
        waldo__json_str(waldo__json_root(doc), &inside);
    }
    waldo__buf_add_str(out, inside);
    waldo__json_free(doc);
}

static waldo_status add_piece(search *s, waldo_str quoted)
{
    text *of = find_text(s, s->place);
    piece *slot = of != NULL && quoted.len > 2 ? WALDO__VEC_PUSH(&s->pieces) : NULL;

    if (slot == NULL) {
        return of == NULL || quoted.len > 2 ? WALDO_ENOMEM : WALDO_OK;
    }
    *slot = (piece){ .at = (size_t)(quoted.ptr + 1 - s->body.ptr),
                     .len = quoted.len - 2,
                     .text = (size_t)(of - s->texts.at),
                     .from = of->all.len };
    add_decoded(quoted, &of->all);
    slot->to = of->all.len;
    return of->all.status;
}

/* Behind the string that begins here; a line's end ends what is none. */
static size_t string_end(waldo_str body, size_t at)
{
    for (at++; at < body.len && body.ptr[at] != '"' && body.ptr[at] != '\n'; at++) {
        at += body.ptr[at] == '\\';
    }
    return at < body.len ? at + 1 : body.len;
}

static int numbers_a_part(waldo_str key)
{
    static const char *const keys[] = { "index", "output_index", "summary_index" };

    for (size_t i = 0; i < WALDO__COUNT(keys); i++) {
        if (waldo__str_is(key, keys[i])) {
            return 1;
        }
    }
    return 0;
}

/* A string: a key says what the place of its value is. */
static waldo_status take_string(search *s)
{
    size_t end = string_end(s->body, s->at), next = end;
    waldo_str quoted = waldo__strn(s->body.ptr + s->at, end - s->at);

    s->at = end;
    if (quoted.len < 2 || quoted.ptr[quoted.len - 1] != '"') {
        return WALDO_OK;
    }
    while (next < s->body.len && (s->body.ptr[next] == ' ' || s->body.ptr[next] == '\t')) {
        next++;
    }
    if (!s->in_object[s->depth] || next == s->body.len || s->body.ptr[next] != ':') {
        return add_piece(s, quoted);
    }
    quoted = waldo__slice(quoted.ptr + 1, quoted.len - 2);
    s->place = place_below(s->places[s->depth], quoted);
    s->is_number = numbers_a_part(quoted);
    s->at = next + 1;
    return WALDO_OK;
}

static void take_number(search *s)
{
    size_t from = s->at;

    while (s->at < s->body.len && s->body.ptr[s->at] >= '0' && s->body.ptr[s->at] <= '9') {
        s->at++;
    }
    if (s->is_number) {
        s->places[s->depth] =
            place_below(s->places[s->depth], waldo__strn(s->body.ptr + from, s->at - from));
        s->is_number = 0;
    }
}

/* What is not JSON stands between events; an empty line ends them, whole or not. */
static void take_mark(search *s)
{
    char byte = s->body.ptr[s->at++];

    if (byte == '{' || byte == '[') {
        if (s->depth < DEPTH_MAX) {
            s->places[s->depth + 1] = s->depth > 0 ? s->place : 0;
            s->place = s->places[s->depth + 1];
            s->in_object[++s->depth] = byte == '{';
        }
    } else if ((byte == '}' || byte == ']') && s->depth > 0) {
        s->depth--;
    } else if (byte == '\n' && s->at < s->body.len &&
               (s->body.ptr[s->at] == '\n' || s->body.ptr[s->at] == '\r')) {
        s->depth = 0;
    } else if (byte == ',' && !s->in_object[s->depth]) {
        s->place = s->places[s->depth];
    }
}

static waldo_status read_body(search *s)
{
    waldo_status status = WALDO_OK;

    while (s->at < s->body.len && status == WALDO_OK) {
        char byte = s->body.ptr[s->at];

        if (byte == '"' && s->depth > 0) {
            status = take_string(s);
        } else if (byte >= '0' && byte <= '9') {
            take_number(s);
        } else {
            take_mark(s);
        }
    }
    return status;
}

/* ---- replacing ---- */

static void find_next(const search *s, text *in, size_t from)
{
    in->hit.name = NULL;
    waldo__secrets_find(s->secrets, waldo__buf_str(&in->all), from, &in->hit);
}

static waldo_str part_of(const text *in, size_t from, size_t to)
{
    return waldo__strn(in->all.ptr + from, to - from);
}

/* The name stands where the value begins; the rest of the value is left out. */
static waldo_status mend(search *s, const piece *of, waldo__torn_edits *edits)
{
    text *in = &s->texts.at[of->text];
    waldo__torn_edit *edit = NULL;
    size_t done = of->from;

    while (in->hit.name != NULL && in->hit.at < of->to) {
        size_t end = in->hit.at + in->hit.len;

        if (edit == NULL) {
            edit = WALDO__VEC_PUSH(edits);
            if (edit == NULL) {
                return WALDO_ENOMEM;
            }
            *edit = (waldo__torn_edit){ of->at, of->len, WALDO__BUF_WIPED(TEXT_MAX) };
        }
        if (in->hit.at >= done) {
            waldo__json_escape(part_of(in, done, in->hit.at), &edit->json);
            waldo__buf_putc(&edit->json, '[');
            waldo__json_escape(waldo__str(in->hit.name), &edit->json);
            waldo__buf_putc(&edit->json, ']');
        }
        done = end < of->to ? end : of->to;
        if (end > of->to) {
            break;
        }
        find_next(s, in, end);
    }
    return edit != NULL ? waldo__json_escape(part_of(in, done, of->to), &edit->json) : WALDO_OK;
}

waldo_status waldo__torn_find(const waldo__secrets *secrets, waldo_str body,
                              waldo__torn_edits *edits)
{
    search s = { .secrets = secrets, .body = body };
    waldo_status status = read_body(&s);

    for (size_t i = 0; i < s.texts.count; i++) {
        find_next(&s, &s.texts.at[i], 0);
    }
    for (size_t i = 0; i < s.pieces.count && status == WALDO_OK; i++) {
        status = mend(&s, &s.pieces.at[i], edits);
    }
    for (size_t i = 0; i < s.texts.count; i++) {
        waldo__buf_free(&s.texts.at[i].all);
    }
    WALDO__VEC_FREE(&s.texts);
    WALDO__VEC_FREE(&s.pieces);
    return status;
}

void waldo__torn_free(waldo__torn_edits *edits)
{
    for (size_t i = 0; i < edits->count; i++) {
        waldo__buf_free(&edits->at[i].json);
    }
    WALDO__VEC_FREE(edits);
}

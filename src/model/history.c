#include "model/history.h"

#include "base/alloc.h"
#include "base/base64.h"
#include "base/error.h"
#include "transcript/transcript.h"

/* What a host that died says about a call whose end it did not see. */
#define LOST_RESULT                                                                                \
    "ERROR: the host restarted before this call finished; it may or may not have run"

enum { MADE_ID_LEN = 24, EXACT_ID_LEN = 9 };

/* ---- memory ---- */

void waldo__history_begin_group(waldo__history *history)
{
    for (size_t i = 0; i < history->group.count; i++) {
        waldo__free(history->group.at[i].id);
        waldo__free(history->group.at[i].wire);
        waldo__free(history->group.at[i].name);
    }
    history->group.count = 0;
    history->has_results = 0;
    history->images = 0;
}

static void free_held(waldo__history_held *held)
{
    waldo__free(held->text);
    waldo__media_free(&held->media);
}

void waldo__history_free(waldo__history *history)
{
    waldo__history_begin_group(history);
    WALDO__VEC_FREE(&history->group);
    for (size_t i = 0; i < history->held.count; i++) {
        free_held(&history->held.at[i]);
    }
    WALDO__VEC_FREE(&history->held);
    WALDO__VEC_FREE(&history->used);
}

static waldo_status push_call(waldo__history *history, waldo__history_call from, waldo_str id,
                              waldo_str wire, waldo_str name)
{
    waldo__history_call *call = WALDO__VEC_PUSH(&history->group);

    if (call == NULL) {
        return WALDO_ENOMEM;
    }
    *call = from;
    call->id = waldo__strndup(id.ptr, id.len);
    call->wire = waldo__strndup(wire.ptr, wire.len);
    call->name = waldo__strndup(name.ptr, name.len);
    return call->id != NULL && call->wire != NULL && call->name != NULL ? WALDO_OK : WALDO_ENOMEM;
}

waldo_status waldo__history_add_call(waldo__history *history, waldo_str id, waldo_str wire,
                                     waldo_str name, int form)
{
    history->unanswered++;
    return push_call(history, (waldo__history_call){ .form = form }, id, wire, name);
}

waldo_status waldo__history_hold(waldo__history *history, const waldo_item *item)
{
    waldo__history_held *held = WALDO__VEC_PUSH(&history->held);

    if (held == NULL) {
        return WALDO_ENOMEM;
    }
    held->kind = item->kind;
    held->text = waldo__strndup(item->text.ptr, item->text.len);
    held->len = item->text.len;
    if (held->text == NULL ||
        waldo__media_copy(&held->media, item->media, item->media_count) != WALDO_OK) {
        free_held(held);
        history->held.count--;
        return WALDO_ENOMEM;
    }
    return WALDO_OK;
}

static waldo_item held_item(const waldo__history_held *held)
{
    return (waldo_item){ .kind = held->kind,
                         .text = waldo__strn(held->text, held->len),
                         .media = held->media.at,
                         .media_count = held->media.count };
}

waldo_status waldo__history_copy(waldo__history *to, const waldo__history *from)
{
    waldo_status status = WALDO_OK;

    *to = (waldo__history){ .has_results = from->has_results,
                            .images = from->images,
                            .unanswered = from->unanswered };
    for (size_t i = 0; i < from->group.count && status == WALDO_OK; i++) {
        const waldo__history_call *call = &from->group.at[i];

        status = push_call(to, *call, waldo__str(call->id), waldo__str(call->wire),
                           waldo__str(call->name));
    }
    for (size_t i = 0; i < from->held.count && status == WALDO_OK; i++) {
        waldo_item item = held_item(&from->held.at[i]);

        status = waldo__history_hold(to, &item);
    }
    if (from->used.count > 0 && status == WALDO_OK) {
        to->used.at = waldo__calloc(from->used.count, sizeof *to->used.at);
        if (to->used.at == NULL) {
            return WALDO_ENOMEM;
        }
        to->used.count = to->used.cap = from->used.count;
        memcpy(to->used.at, from->used.at, from->used.count * sizeof *to->used.at);
    }
    return status;
}

/* ---- results ---- */

static void write_result(waldo__history *history, const waldo__history_writer *writer,
                         waldo__history_call *call, const waldo_item *item)
{
    writer->result(writer->userdata, call, item);
    history->has_results = 1;
    history->unanswered--;
    call->answered = 1;
}

/* A result as text that tells of its images, which are held back until the last result is there. */
static waldo_status write_media_behind(waldo__history *history, const waldo__history_writer *writer,
                                       waldo__history_call *call, const waldo_item *item)
{
    waldo__buf said = WALDO__BUF_INIT(1024), text = WALDO__BUF_INIT(item->text.len + 4096);
    waldo_item plain = *item, behind = { .kind = WALDO_ITEM_NOTICE,
                                         .media = item->media,
                                         .media_count = item->media_count };
    waldo_status status;

    waldo__buf_add_str(&text, item->text);
    waldo__buf_puts(&said, item->media_count == 1 ? "image" : "images");
    for (size_t i = 0; i < item->media_count; i++) {
        history->images++;
        waldo__buf_printf(&text, "%s[image %zu attached below]", text.len > 0 ? "\n" : "",
                          history->images);
        waldo__buf_printf(&said, "%s %zu", i > 0 ? "," : "", history->images);
    }
    waldo__buf_printf(&said, " of the result of %s:", call->name);
    status = text.status != WALDO_OK ? text.status : said.status;
    if (status == WALDO_OK) {
        plain.text = waldo__buf_str(&text);
        plain.media = NULL;
        plain.media_count = 0;
        behind.text = waldo__buf_str(&said);
        status = waldo__history_hold(history, &behind);
        write_result(history, writer, call, &plain);
    }
    waldo__buf_free(&said);
    waldo__buf_free(&text);
    return status;
}

/* After the last result: what was said meanwhile. */
static void release_held(waldo__history *history, const waldo__history_writer *writer)
{
    if (history->unanswered > 0) {
        return;
    }
    for (size_t i = 0; i < history->held.count; i++) {
        waldo__history_held *held = &history->held.at[i];

        waldo_item item = held_item(held);

        writer->said(writer->userdata, &item);
        free_held(held);
    }
    history->held.count = 0;
}

waldo_status waldo__history_add_result(waldo__history *history, const waldo__history_writer *writer,
                                       const waldo_item *item)
{
    waldo_status status = WALDO_OK;

    for (size_t i = 0; i < history->group.count; i++) {
        waldo__history_call *call = &history->group.at[i];

        if (!call->answered && waldo__str_is(item->id, call->id)) {
            if (writer->media_behind && item->media_count > 0) {
                status = write_media_behind(history, writer, call, item);
            } else {
                write_result(history, writer, call, item);
            }
            release_held(history, writer);
            return status;
        }
    }
    return WALDO_OK;
}

void waldo__history_lose_calls(waldo__history *history, const waldo__history_writer *writer)
{
    for (size_t i = 0; i < history->group.count; i++) {
        if (!history->group.at[i].answered) {
            write_result(history, writer, &history->group.at[i],
                         &(waldo_item){ .kind = WALDO_ITEM_TOOL_RESULT,
                                        .is_error = 1,
                                        .text = WALDO__S(LOST_RESULT) });
        }
    }
    release_held(history, writer);
}

/* count: of the items from this one on that are of its answer; 0 when it is no part of one. */
static waldo_status add_item(waldo__history *history, const waldo__history_writer *writer,
                             const waldo_item *item, size_t count)
{
    switch (item->kind) {
    case WALDO_ITEM_USER:
    case WALDO_ITEM_NOTICE:
    case WALDO_ITEM_COMPACTION:
        if (history->unanswered > 0) {
            return waldo__history_hold(history, item);
        }
        writer->said(writer->userdata, item);
        return WALDO_OK;
    case WALDO_ITEM_ASSISTANT:
        return writer->assistant(writer->userdata, item);
    case WALDO_ITEM_REASONING:
        return writer->reasoning(writer->userdata, item, count);
    case WALDO_ITEM_TOOL_CALL:
        return writer->call(writer->userdata, item);
    case WALDO_ITEM_TOOL_RESULT:
        return waldo__history_add_result(history, writer, item);
    default:
        return WALDO_EINVAL;
    }
}

static void begin_answer(waldo__history *history, const waldo__history_writer *writer,
                         waldo_item_kind first)
{
    if (writer->begin_answer != NULL) {
        writer->begin_answer(writer->userdata);
    }
    if (history->unanswered > 0 && (first != WALDO_ITEM_TOOL_CALL || history->has_results)) {
        waldo__history_lose_calls(history, writer);
    }
}

waldo_status waldo__history_add(waldo__history *history, const waldo__history_writer *writer,
                                const waldo_item *items, size_t count)
{
    waldo_status status = WALDO_OK;
    size_t answer_end = 0;

    for (size_t i = 0; i < count && status == WALDO_OK; i++) {
        if (i >= answer_end && waldo__is_response_part(items[i].kind)) {
            begin_answer(history, writer, items[i].kind);
            for (answer_end = i + 1;
                 answer_end < count && waldo__is_response_part(items[answer_end].kind);
                 answer_end++) {
            }
        }
        status = add_item(history, writer, &items[i], i < answer_end ? answer_end - i : 0);
    }
    return status;
}

waldo_status waldo__history_refuse(const waldo__history *history, waldo_error **ret_err)
{
    for (size_t i = 0; i < history->group.count; i++) {
        if (!history->group.at[i].answered) {
            return waldo__error_invalid(ret_err, "call \"%.100s\" of tool \"%s\" has no result yet",
                                        history->group.at[i].id, history->group.at[i].name);
        }
    }
    return WALDO_EINTERNAL;
}

waldo_status waldo__request_fail(waldo__buf *body, size_t frozen, waldo_status status,
                                 const char *what, waldo_error **ret_err)
{
    waldo__buf_truncate(body, frozen);
    body->status = WALDO_OK;
    return waldo_error_set(ret_err, status, WALDO_CLASS_USAGE,
                           "the request to the model could not be %s: %s", what,
                           waldo_status_text(status));
}

waldo_status waldo__request_unbegun(waldo_status status, waldo_error **ret_err)
{
    return waldo_error_set(ret_err, status, WALDO_CLASS_USAGE,
                           "the model's requests could not be begun: %s",
                           waldo_status_text(status));
}

waldo_str waldo__request_headers(int streamed)
{
    return streamed ? WALDO__S("Content-Type: application/json\nAccept: text/event-stream\n")
                    : WALDO__S("Content-Type: application/json\nAccept: application/json\n");
}

/* ---- names and ids ---- */

static int is_word_byte(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9');
}

waldo_str waldo__wire_name(waldo_str name, char wire[WALDO__MODEL_NAME_MAX + 1])
{
    size_t len = name.len < WALDO__MODEL_NAME_MAX ? name.len : WALDO__MODEL_NAME_MAX;

    for (size_t i = 0; i < len; i++) {
        char byte = name.ptr[i];

        wire[i] = is_word_byte(byte) || byte == '-' ? byte : '_';
    }
    wire[len] = '\0';
    return len > 0 ? waldo__strn(wire, len) : WALDO__S("unknown");
}

static int id_is_fine(waldo_str id, size_t max, waldo__id_rule rule)
{
    if (rule == WALDO__ID_EXACT ? id.len != max : id.len == 0 || id.len > max) {
        return 0;
    }
    for (size_t i = 0; i < id.len; i++) {
        char byte = id.ptr[i];
        int fine = rule == WALDO__ID_PRINTABLE ? (unsigned char)byte > ' ' && byte != 0x7f
                   : rule == WALDO__ID_WORD    ? byte == '_' || byte == '-'
                                               : 0;

        if (!fine && !is_word_byte(byte)) {
            return 0;
        }
    }
    return 1;
}

/* FNV-1a */
static uint64_t hash_of(waldo_str id, unsigned salt)
{
    uint64_t hash = UINT64_C(14695981039346656037) + salt;

    for (size_t i = 0; i < id.len; i++) {
        hash = (hash ^ (unsigned char)id.ptr[i]) * UINT64_C(1099511628211);
    }
    return hash;
}

/* As many letters and digits as are wanted. */
static void hash_id(waldo_str id, unsigned salt, char *text, size_t len)
{
    uint64_t hash = hash_of(id, salt);

    for (size_t i = 0; i < len; i++) {
        hash = (hash ^ (hash >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
        text[i] = waldo__base64_digits[(hash >> 32) % WALDO__ALNUM];
    }
    text[len] = '\0';
}

int waldo__wire_id_is_taken(const waldo__history *history, waldo_str wire)
{
    uint64_t hash = history->used.count > 0 ? hash_of(wire, 0) : 0;

    for (size_t i = 0; i < history->group.count; i++) {
        if (waldo__str_is(wire, history->group.at[i].wire)) {
            return 1;
        }
    }
    for (size_t i = 0; i < history->used.count; i++) {
        if (history->used.at[i] == hash) {
            return 1;
        }
    }
    return 0;
}

waldo_status waldo__wire_id_use(waldo__history *history, waldo_str wire)
{
    uint64_t *slot = WALDO__VEC_PUSH(&history->used);

    if (slot == NULL) {
        return WALDO_ENOMEM;
    }
    *slot = hash_of(wire, 0);
    return WALDO_OK;
}

void waldo__wire_id(const waldo__history *history, waldo_str id, size_t max, waldo__id_rule rule,
                    char wire[WALDO__WIRE_ID_MAX])
{
    int exact = rule == WALDO__ID_EXACT;
    size_t start = exact ? 0 : 5;

    if (id_is_fine(id, max, rule) && !waldo__wire_id_is_taken(history, id)) {
        memcpy(wire, id.ptr, id.len);
        wire[id.len] = '\0';
        return;
    }
    memcpy(wire, "call_", 5);
    for (unsigned salt = (unsigned)history->used.count;; salt++) {
        hash_id(id, salt, wire + start, exact ? EXACT_ID_LEN : MADE_ID_LEN);
        if (!waldo__wire_id_is_taken(history, waldo__str(wire))) {
            return;
        }
    }
}

/* ---- texts ---- */

void waldo__wire_said(waldo_item_kind kind, waldo_str text, waldo__buf *out)
{
    if (kind == WALDO_ITEM_NOTICE) {
        waldo__buf_puts(out, "[notice from the host] ");
    } else if (kind == WALDO_ITEM_COMPACTION) {
        waldo__buf_puts(out, "[summary of the conversation so far]\\n");
    }
    waldo__json_escape(text, out);
}

void waldo__wire_result(waldo_str text, int is_error, waldo__buf *out)
{
    if (is_error && !waldo__str_starts(text, "ERROR:")) {
        waldo__buf_puts(out, "ERROR: ");
    }
    waldo__json_escape(text.len > 0 ? text : WALDO__S("(no output)"), out);
}

void waldo__wire_data_url(const waldo_media *media, waldo__buf *out)
{
    waldo__buf_puts(out, "data:");
    waldo__json_escape(media->mime, out);
    waldo__buf_puts(out, ";base64,");
    waldo__json_escape(media->base64, out);
}

waldo_status waldo__wire_schema(const waldo_tool_decl *tool, waldo_str *ret_schema,
                                waldo_error **ret_err)
{
    waldo_str schema = waldo__str_trim(tool->schema);
    waldo_status status = WALDO_OK;

    if (schema.len == 0) {
        schema = WALDO__S("{\"type\":\"object\",\"properties\":{}}");
    }
    if (!waldo__wire_is_object(schema, &status)) {
        return status != WALDO_OK
                   ? waldo__error_nomem(ret_err)
                   : waldo_error_set(ret_err, WALDO_EJSON, WALDO_CLASS_USAGE,
                                     "tool \"%.*s\": its schema is not a JSON object",
                                     (int)(tool->name.len < 100 ? tool->name.len : 100),
                                     tool->name.ptr);
    }
    *ret_schema = schema;
    return WALDO_OK;
}

int waldo__wire_is_object(waldo_str text, waldo_status *ret_status)
{
    waldo__json *doc = NULL;
    waldo_status status = waldo__json_parse(text, NULL, &doc, NULL);
    int object = 0;

    if (status == WALDO_OK) {
        object = waldo__json_type_of(waldo__json_root(doc)) == WALDO__JSON_OBJECT;
        waldo__json_free(doc);
    } else if (status == WALDO_ENOMEM) {
        *ret_status = status;
    }
    return object;
}

waldo_str waldo__wire_own_raw(const waldo_item *item, const waldo__buf *vendor,
                              waldo_status *ret_status)
{
    return item->raw.len > 0 && waldo__str_eq(item->vendor, waldo__buf_str(vendor)) &&
                   waldo__wire_is_object(item->raw, ret_status)
               ? item->raw
               : WALDO__S("");
}

int waldo__wire_raw_says(waldo_str raw, const char *member, waldo_str value)
{
    waldo_str bytes = WALDO__S("");

    return waldo__json_raw_get(raw, member, &bytes) && bytes.len == value.len + 2 &&
           bytes.ptr[0] == '"' && waldo__str_eq(waldo__slice(bytes.ptr + 1, value.len), value);
}

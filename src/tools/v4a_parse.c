/*
 * From text to sections, hunks and lines. Two public implementations define the form, and they
 * disagree: where they do, what loses nothing and guesses nothing was chosen (docs/tools.md).
 */
#include "tools/v4a.h"

#include "base/error.h"

enum { SHOWN = 200 }; /* bytes of a line in an error */

static const char begin_mark[] = "*** Begin Patch";
static const char end_mark[] = "*** End Patch";
static const char file_end_mark[] = "*** End of File";
static const char move_mark[] = "*** Move to:";

static const struct {
    const char *mark;
    waldo__v4a_kind kind;
} headers[] = {
    { "*** Add File:", WALDO__V4A_ADD },
    { "*** Delete File:", WALDO__V4A_DELETE },
    { "*** Update File:", WALDO__V4A_UPDATE },
};

#define HEADERS "*** Add File: PATH, *** Delete File: PATH or *** Update File: PATH"

/* What of a line is shown in an error. */
static int shown_len(waldo_str line)
{
    return (int)(line.len < SHOWN ? line.len : SHOWN);
}

/* ---- lines ---- */

int waldo__v4a_line_next(waldo__v4a_source *source, waldo_str *ret_line)
{
    size_t len = waldo__str_find(source->rest, '\n'), taken = len + (len < source->rest.len);
    waldo_str line = waldo__strn(source->rest.ptr, len);

    if (source->rest.len == 0) {
        return 0;
    }
    if (taken > len && len > 0 && line.ptr[len - 1] == '\r') {
        line.len--;
    }
    source->rest = waldo__strn(source->rest.ptr + taken, source->rest.len - taken);
    source->number++;
    *ret_line = line;
    return 1;
}

/* Look at the next line without taking it. */
static int peek(const waldo__v4a_source *source, waldo_str *ret_line)
{
    waldo__v4a_source copy = *source;

    return waldo__v4a_line_next(&copy, ret_line);
}

static void skip_blank(waldo__v4a_source *source)
{
    waldo_str line;

    while (peek(source, &line) && waldo__str_trim(line).len == 0) {
        waldo__v4a_line_next(source, &line);
    }
}

static int header_of(waldo_str line, size_t *ret_index)
{
    waldo_str trimmed = waldo__str_trim(line);

    for (size_t i = 0; i < WALDO__COUNT(headers); i++) {
        if (waldo__str_starts(trimmed, headers[i].mark)) {
            *ret_index = i;
            return 1;
        }
    }
    return 0;
}

static waldo_str after_mark(waldo_str line, const char *mark)
{
    waldo_str trimmed = waldo__str_trim(line);
    size_t len = strlen(mark);

    return waldo__str_trim(waldo__slice(trimmed.ptr + len, trimmed.len - len));
}

static waldo_status add_line(waldo__v4a *patch, char kind, waldo_str text, waldo_error **ret_err)
{
    waldo__v4a_line *line = WALDO__VEC_PUSH(&patch->lines);

    if (line == NULL) {
        return waldo__error_nomem(ret_err);
    }
    *line = (waldo__v4a_line){ .kind = kind, .text = text };
    return WALDO_OK;
}

/* ---- hunks ---- */

static int is_anchor(waldo_str line)
{
    return waldo__str_is(waldo__str_trim(line), "@@") ? line.ptr[0] == '@'
                                                      : waldo__str_starts(line, "@@ ");
}

/* Take the "@@" lines in front of a hunk; a bare one narrows nothing. */
static waldo_status take_anchors(waldo__v4a *patch, waldo__v4a_hunk *hunk,
                                 waldo__v4a_source *source, waldo_error **ret_err)
{
    waldo_str line;

    hunk->first_anchor = patch->anchors.count;
    while (peek(source, &line) && is_anchor(line)) {
        waldo__v4a_line_next(source, &line);
        line = waldo__slice(line.ptr + 2, line.len - 2);
        if (waldo__str_trim(line).len > 0) {
            waldo_str *anchor = WALDO__VEC_PUSH(&patch->anchors);

            if (anchor == NULL) {
                return waldo__error_nomem(ret_err);
            }
            *anchor = waldo__slice(line.ptr + 1, line.len - 1);
        }
    }
    hunk->anchor_count = patch->anchors.count - hunk->first_anchor;
    return WALDO_OK;
}

static int is_header(waldo_str line)
{
    size_t index;

    return line.len > 0 && line.ptr[0] == '*' && header_of(line, &index);
}

/* Take the lines of a hunk, up to what begins the next thing. */
static waldo_status take_lines(waldo__v4a *patch, waldo__v4a_hunk *hunk, waldo__v4a_source *source,
                               waldo_error **ret_err)
{
    size_t blanks = 0; /* empty lines at the end: there may be a header behind them */
    waldo_status status = WALDO_OK;
    waldo_str line;

    hunk->first_line = patch->lines.count;
    while (status == WALDO_OK && peek(source, &line)) {
        if (is_anchor(line) || is_header(line)) {
            break;
        }
        waldo__v4a_line_next(source, &line);
        if (line.len > 0 && line.ptr[0] == '*' &&
            waldo__str_is(waldo__str_trim(line), file_end_mark)) {
            hunk->at_end = 1;
            blanks = 0;
            break;
        }
        blanks = line.len == 0 ? blanks + 1 : 0;
        if (line.len == 0) {
            status = add_line(patch, ' ', line, ret_err); /* models drop the blank of these */
        } else if (memchr(" -+", line.ptr[0], 3) != NULL) {
            status =
                add_line(patch, line.ptr[0], waldo__slice(line.ptr + 1, line.len - 1), ret_err);
        } else {
            status = waldo__error_invalid(
                ret_err,
                "patch line %zu: '%.*s' is no line of a hunk: each begins with a space "
                "(kept), '-' (removed) or '+' (added), or with '@@' or '***'",
                source->number, shown_len(line), line.ptr);
        }
    }
    if (!peek(source, &line) || is_header(line)) {
        patch->lines.count -= blanks;
    }
    hunk->line_count = patch->lines.count - hunk->first_line;
    return status;
}

static waldo_status take_hunk(waldo__v4a *patch, waldo__v4a_section *section,
                              waldo__v4a_source *source, waldo_error **ret_err)
{
    waldo__v4a_hunk *hunk = WALDO__VEC_PUSH(&patch->hunks);
    waldo_status status;
    waldo_str line;

    if (hunk == NULL) {
        return waldo__error_nomem(ret_err);
    }
    hunk->line = source->number + 1;
    if (section->hunk_count > 0 && peek(source, &line) && !is_anchor(line)) {
        return waldo__error_invalid(ret_err,
                                    "patch line %zu: '%.*s': a further hunk must begin with '@@'",
                                    hunk->line, shown_len(line), line.ptr);
    }
    section->hunk_count++;
    status = take_anchors(patch, hunk, source, ret_err);
    if (status == WALDO_OK) {
        status = take_lines(patch, hunk, source, ret_err);
    }
    if (status == WALDO_OK && hunk->line_count == 0) {
        status = waldo__error_invalid(ret_err, "patch line %zu: the hunk has no lines", hunk->line);
    }
    for (size_t i = 0; i < hunk->line_count; i++) {
        hunk->old_count += patch->lines.at[hunk->first_line + i].kind != '+';
    }
    return status;
}

/* Blank lines in front of what is no line of a hunk; else only empty ones, others are lines. */
static void skip_before_hunk(waldo__v4a_source *source)
{
    waldo__v4a_source behind = *source;
    waldo_str line;

    skip_blank(&behind);
    if (!peek(&behind, &line) || is_header(line) || is_anchor(line)) {
        *source = behind;
    }
    while (peek(source, &line) && line.len == 0) {
        waldo__v4a_line_next(source, &line);
    }
}

waldo_status waldo__v4a_hunks(waldo__v4a *patch, waldo__v4a_section *section,
                              waldo__v4a_source *source, waldo_error **ret_err)
{
    waldo_status status = WALDO_OK;
    waldo_str line;

    section->first_hunk = patch->hunks.count;
    for (skip_before_hunk(source); status == WALDO_OK && peek(source, &line) && !is_header(line);
         skip_before_hunk(source)) {
        status = take_hunk(patch, section, source, ret_err);
    }
    if (status == WALDO_OK && section->hunk_count == 0 && section->move_to.len == 0) {
        status = waldo__error_invalid(
            ret_err,
            "patch line %zu: nothing is said about what to change in %.*s: a hunk must "
            "follow",
            section->line, shown_len(section->path), section->path.ptr);
    }
    return status;
}

waldo_status waldo__v4a_added(waldo__v4a *patch, waldo__v4a_section *section,
                              waldo__v4a_source *source)
{
    waldo_str line;

    section->first_line = patch->lines.count;
    while (peek(source, &line) && line.len > 0 && line.ptr[0] == '+') {
        waldo__v4a_line_next(source, &line);
        if (add_line(patch, '+', waldo__slice(line.ptr + 1, line.len - 1), NULL) != WALDO_OK) {
            return WALDO_ENOMEM;
        }
    }
    section->line_count = patch->lines.count - section->first_line;
    return WALDO_OK;
}

/* ---- sections ---- */

static waldo_status not_a_header(const waldo__v4a *patch, const waldo__v4a_source *source,
                                 waldo_str line, waldo_error **ret_err)
{
    const char *hint = "";

    if (waldo__str_is(waldo__str_trim(line), end_mark)) {
        hint = " (something follows the end marker: send one patch)";
    } else if (patch->sections.count > 0 &&
               patch->sections.at[patch->sections.count - 1].kind == WALDO__V4A_ADD) {
        hint = " (each line of an added file begins with '+', empty ones too)";
    }
    return waldo__error_invalid(ret_err, "patch line %zu: '%.*s' is not " HEADERS "%s",
                                source->number, shown_len(line), line.ptr, hint);
}

/* The section that begins with the next line. */
static waldo_status take_section(waldo__v4a *patch, waldo__v4a_source *source,
                                 waldo_error **ret_err)
{
    waldo__v4a_section *section;
    waldo_str line = { "", 0 };
    size_t index = 0;

    waldo__v4a_line_next(source, &line);
    if (!header_of(line, &index)) {
        return not_a_header(patch, source, line, ret_err);
    }
    if (patch->sections.count == WALDO__V4A_SECTIONS_MAX) {
        return waldo_error_set(ret_err, WALDO_ETOOBIG, WALDO_CLASS_USAGE,
                               "the patch has more than %d sections: send several patches",
                               (int)WALDO__V4A_SECTIONS_MAX);
    }
    section = WALDO__VEC_PUSH(&patch->sections);
    if (section == NULL) {
        return waldo__error_nomem(ret_err);
    }
    section->kind = headers[index].kind;
    section->line = source->number;
    section->path = after_mark(line, headers[index].mark);
    if (section->path.len == 0) {
        return waldo__error_invalid(ret_err, "patch line %zu: the path is empty", source->number);
    }
    if (section->kind == WALDO__V4A_ADD) {
        return waldo__v4a_added(patch, section, source) == WALDO_OK ? WALDO_OK
                                                                    : waldo__error_nomem(ret_err);
    }
    if (section->kind == WALDO__V4A_DELETE) {
        return WALDO_OK;
    }
    if (peek(source, &line) && waldo__str_starts(line, move_mark)) {
        waldo__v4a_line_next(source, &line);
        section->move_to = after_mark(line, move_mark);
        if (section->move_to.len == 0) {
            return waldo__error_invalid(ret_err, "patch line %zu: the path is empty",
                                        source->number);
        }
    }
    return waldo__v4a_hunks(patch, section, source, ret_err);
}

/* ---- the envelope ---- */

/* Cut the first and the last line off. */
static waldo_str inside(waldo_str text)
{
    size_t first = waldo__str_find(text, '\n') + 1, last = text.len;

    while (last > first && text.ptr[last - 1] != '\n') {
        last--;
    }
    return last > first ? waldo__str_trim(waldo__slice(text.ptr + first, last - first))
                        : waldo__slice(text.ptr, 0);
}

static waldo_str first_line(waldo_str text)
{
    waldo__v4a_source source = { .rest = text };
    waldo_str line = { "", 0 };

    peek(&source, &line);
    return line;
}

static waldo_str last_line(waldo_str text)
{
    size_t at = text.len;

    while (at > 0 && text.ptr[at - 1] != '\n') {
        at--;
    }
    return waldo__slice(text.ptr + at, text.len - at);
}

static waldo_str unwrap(waldo_str text)
{
    waldo_str first = first_line(text = waldo__str_trim(text));

    if (waldo__str_starts(first, "```") && first.len < text.len &&
        waldo__str_is(last_line(text), "```")) {
        text = inside(text);
        first = first_line(text);
    }
    if ((waldo__str_is(first, "<<EOF") || waldo__str_is(first, "<<'EOF'") ||
         waldo__str_is(first, "<<\"EOF\"")) &&
        waldo__str_ends(last_line(text), "EOF") && first.len < text.len) {
        text = inside(text);
    }
    return text;
}

static waldo_status parse_json(waldo__v4a *patch, waldo_str text, waldo_error **ret_err)
{
    const waldo__json_limits limits = { .max_bytes = WALDO__V4A_PATCH_MAX, .max_depth = 16 };
    waldo_status status = waldo__json_parse(text, &limits, &patch->doc, ret_err);

    return status == WALDO_OK ? waldo__v4a_operations(patch, waldo__json_root(patch->doc), ret_err)
                              : status;
}

waldo_status waldo__v4a_parse(waldo__v4a *patch, waldo_str text, waldo_error **ret_err)
{
    waldo_status status = WALDO_OK;
    waldo__v4a_source source;
    waldo_str line = { "", 0 }, last;

    if (text.len > WALDO__V4A_PATCH_MAX) {
        return waldo_error_set(ret_err, WALDO_ETOOBIG, WALDO_CLASS_USAGE,
                               "the patch is larger than 8 MiB: send several");
    }
    text = unwrap(text);
    if (text.len > 0 && (text.ptr[0] == '{' || text.ptr[0] == '[')) {
        return parse_json(patch, text, ret_err);
    }
    source = (waldo__v4a_source){ .rest = text };
    waldo__v4a_line_next(&source, &line);
    if (!waldo__str_is(waldo__str_trim(line), begin_mark)) {
        return waldo__error_invalid(ret_err,
                                    "the first line of a patch must be '%s', and not '%.*s'",
                                    begin_mark, shown_len(line), line.ptr);
    }
    last = last_line(text);
    if (!waldo__str_is(waldo__str_trim(last), end_mark)) {
        return waldo__error_invalid(ret_err,
                                    "the last line of a patch must be '%s', and not '%.*s'",
                                    end_mark, shown_len(last), last.ptr);
    }
    source.rest.len -= last.len;
    for (skip_blank(&source); status == WALDO_OK && source.rest.len > 0; skip_blank(&source)) {
        status = take_section(patch, &source, ret_err);
    }
    if (status == WALDO_OK && patch->sections.count == 0) {
        status = waldo__error_invalid(ret_err, "the patch has no section: begin one with " HEADERS);
    }
    return status;
}

void waldo__v4a_free(waldo__v4a *patch)
{
    WALDO__VEC_FREE(&patch->sections);
    WALDO__VEC_FREE(&patch->hunks);
    WALDO__VEC_FREE(&patch->lines);
    WALDO__VEC_FREE(&patch->anchors);
    waldo__json_free(patch->doc);
    patch->doc = NULL;
}

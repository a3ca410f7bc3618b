/*
 * Hunks onto the lines of a file. Lines that a hunk keeps stay as the file has them, byte for byte:
 * a model's spelling of them may lack blanks or quotes.
 */
#include "base/alloc.h"
#include "base/utf8.h"
#include "tools/tools.h"
#include "tools/v4a.h"

enum {
    STEPS = 50 * 1000 * 1000,      /* of work for one file */
    COUNT_STEPS = 2 * 1000 * 1000, /* of it for counting where else a hunk would match */
    SHOWN_LINES = 30,
    SHOWN_BYTES = 200, /* of a line */
    NOTES_MAX = 8000
};

/* Where a hunk goes. */
typedef struct place {
    size_t at;
    size_t old_count;  /* lines of the file that it takes */
    int pass;          /* how it matched */
    int end_missed;    /* the end was asked for, and it is elsewhere */
    size_t unanchored; /* 1 + the anchor that is not there */
} place;

typedef struct work {
    const waldo__v4a *patch;
    const waldo__v4a_section *section;
    waldo__v4a_text text;
    const char *eol; /* of lines that are added */
    waldo__buf *out;
    waldo__buf *notes;
    waldo__buf *why;
    waldo__v4a_change *change;
    waldo_str *old; /* of the hunk at work: what is to be there */
    waldo_str *new; /* what will be there */
    size_t old_count, new_count;
    size_t index;   /* of the hunk, from 0 */
    size_t cursor;  /* behind the last hunk, or its anchor */
    size_t emitted; /* lines of the file that out holds, or that were removed */
    int is_bare;    /* the last line in out has no end yet */
    size_t count_steps;
    int is_applied; /* the first failure is of a hunk that was applied before */
} work;

static const waldo__v4a_line *lines_of(const work *w, const waldo__v4a_hunk *hunk)
{
    return w->patch->lines.at + hunk->first_line;
}

/* ---- a file in lines ---- */

static waldo_status split(work *w, waldo_str text)
{
    size_t count = 0, at = 0;

    for (size_t i = 0; i < text.len; i++) {
        count += text.ptr[i] == '\n' || i + 1 == text.len;
    }
    if (count > WALDO__V4A_LINES_MAX) {
        waldo__buf_puts(w->why, "the file has more than a million lines: edit it with a command");
        return WALDO_ETOOBIG;
    }
    w->text.lines = waldo__calloc(count + 1, sizeof *w->text.lines);
    if (w->text.lines == NULL) {
        return WALDO_ENOMEM;
    }
    while (at < text.len) {
        waldo_str rest = waldo__slice(text.ptr + at, text.len - at);
        size_t len = waldo__str_find(rest, '\n');
        waldo__v4a_text_line *line = &w->text.lines[w->text.count++];

        line->end = len < rest.len;
        at += len + line->end;
        if (line->end && len > 0 && rest.ptr[len - 1] == '\r') {
            len--;
            line->end = 2;
        }
        line->text = waldo__slice(rest.ptr, len);
    }
    w->eol = w->text.count > 0 && w->text.lines[0].end == 2 ? "\r\n" : "\n";
    w->text.steps = STEPS;
    return WALDO_OK;
}

/* ---- the new content ---- */

static void emit(work *w, waldo_str text, const char *end)
{
    if (w->is_bare) {
        waldo__buf_puts(w->out, w->eol);
    }
    waldo__buf_add_str(w->out, text);
    waldo__buf_puts(w->out, end);
    w->is_bare = end[0] == '\0';
}

static void keep_until(work *w, size_t at)
{
    static const char *const ends[] = { "", "\n", "\r\n" };

    for (; w->emitted < at; w->emitted++) {
        emit(w, w->text.lines[w->emitted].text, ends[w->text.lines[w->emitted].end]);
    }
}

/*
 * Put a hunk in its place. With one line of old less than the hunk has, its last was the empty one
 * that a model sees behind the last newline: that is not in the file, and goes from the new text
 * if it ends so, too.
 */
static void put_hunk(work *w, const waldo__v4a_hunk *hunk, const place *p)
{
    const waldo__v4a_line *lines = lines_of(w, hunk);
    int dropped = p->old_count < w->old_count;
    size_t last_old = hunk->line_count, last_new = hunk->line_count;

    for (size_t i = 0; dropped && i < hunk->line_count; i++) {
        last_old = lines[i].kind != '+' ? i : last_old;
        last_new = lines[i].kind != '-' ? i : last_new;
    }
    if (last_new < hunk->line_count && lines[last_new].text.len > 0) {
        last_new = hunk->line_count;
    }
    keep_until(w, p->at);
    for (size_t i = 0; i < hunk->line_count; i++) {
        int is_old = lines[i].kind != '+' && i != last_old;
        int is_new = lines[i].kind != '-' && i != last_new;

        if (is_old && is_new) {
            keep_until(w, w->emitted + 1);
        } else if (is_old) {
            w->emitted++;
            w->change->removed++;
        } else if (is_new) {
            emit(w, lines[i].text, w->eol);
            w->change->added++;
        }
    }
    w->cursor = w->emitted;
}

/* ---- notes ---- */

static void add_where(work *w, const waldo__v4a_hunk *hunk, waldo__buf *out)
{
    waldo__tool_show_name(w->section->path, out);
    waldo__buf_printf(out, ", hunk %zu", w->index + 1);
    if (out == w->why) {
        waldo__buf_printf(out, " (patch line %zu)", hunk->line);
    }
    waldo__buf_puts(out, ": ");
}

static void add_text(waldo__buf *out, waldo_str line)
{
    size_t shown = waldo__utf8_cut(line, SHOWN_BYTES);

    waldo__utf8_clean(waldo__slice(line.ptr, shown), out);
    waldo__buf_puts(out, shown < line.len ? " [...]\n" : "\n");
}

static size_t count_matches(work *w, const place *p)
{
    uint64_t kept = w->text.steps;
    size_t matches = 1, at = p->at;

    w->text.steps = w->count_steps;
    while ((at = waldo__v4a_find_pass(&w->text, w->old, p->old_count, at + 1, w->text.count,
                                      p->pass)) != WALDO__V4A_NOWHERE) {
        matches++;
    }
    w->count_steps = w->text.steps;
    w->text.steps = kept;
    return matches;
}

static void add_notes(work *w, const waldo__v4a_hunk *hunk, const place *p)
{
    static const char *const passes[] = {
        [WALDO__V4A_TAIL] = "matched ignoring white space at the end of lines",
        [WALDO__V4A_TRIM] = "matched ignoring indentation",
        [WALDO__V4A_ALIKE] = "matched ignoring which dashes, quotes and spaces are used",
    };
    int by_anchor = hunk->anchor_count > 0 && p->unanchored == 0;
    size_t matches =
        by_anchor || (hunk->at_end && !p->end_missed) || p->unanchored ? 1 : count_matches(w, p);

    if (w->notes->len > NOTES_MAX) {
        return;
    }
    if (p->unanchored > 0) {
        waldo__buf_puts(w->notes, "note: ");
        add_where(w, hunk, w->notes);
        waldo__buf_puts(w->notes, "the anchor was not found; its lines are there only once: @@ ");
        add_text(w->notes, w->patch->anchors.at[hunk->first_anchor + p->unanchored - 1]);
    }
    if (p->pass != WALDO__V4A_EXACT) {
        waldo__buf_puts(w->notes, "note: ");
        add_where(w, hunk, w->notes);
        waldo__buf_printf(w->notes, "%s, at line %zu\n", passes[p->pass], p->at + 1);
    }
    if (p->end_missed) {
        waldo__buf_puts(w->notes, "note: ");
        add_where(w, hunk, w->notes);
        waldo__buf_printf(w->notes, "not at the end of the file; used line %zu\n", p->at + 1);
    }
    if (matches > 1) {
        waldo__buf_puts(w->notes, "note: ");
        add_where(w, hunk, w->notes);
        waldo__buf_printf(w->notes, "%zu places matched; used line %zu\n", matches, p->at + 1);
    }
}

/* ---- failures ---- */

/* Begin to say why, if this is the first failure; 0 if it is not. */
static int fails(work *w, const waldo__v4a_hunk *hunk)
{
    w->change->failed++;
    if (w->change->failed > 1) {
        return 0;
    }
    waldo__buf_puts(w->why, "file ");
    add_where(w, hunk, w->why);
    return 1;
}

static void show_old(work *w)
{
    for (size_t i = 0; i < w->old_count && i < SHOWN_LINES; i++) {
        waldo__buf_puts(w->why, "  |");
        add_text(w->why, w->old[i]);
    }
    if (w->old_count > SHOWN_LINES) {
        waldo__buf_printf(w->why, "  [... %zu more lines]\n", w->old_count - SHOWN_LINES);
    }
}

/* The place where most lines of old match from its first on, and what differs there. */
static void show_closest(work *w)
{
    size_t best = 0, best_at = 0;

    for (size_t at = 0; at < w->text.count && w->text.steps > 0; at++) {
        size_t same = waldo__v4a_prefix(&w->text, w->old, w->old_count, at, WALDO__V4A_TRIM);

        if (same > best) {
            best = same;
            best_at = at;
        }
    }
    if (best == 0 || best == w->old_count) {
        return;
    }
    waldo__buf_printf(w->why, "closest place: line %zu; first difference at line %zu:\n  patch: |",
                      best_at + 1, best_at + best + 1);
    add_text(w->why, w->old[best]);
    if (best_at + best < w->text.count) {
        waldo__buf_puts(w->why, "  file:  |");
        add_text(w->why, w->text.lines[best_at + best].text);
    } else {
        waldo__buf_puts(w->why, "  file:  (ends there)\n");
    }
}

/* Is what the hunk makes there already? What it only removes, or one kept line, shows nothing. */
static size_t find_applied(work *w, size_t from)
{
    int pass;

    if (w->new_count == 0 || (w->new_count == 1 && w->old_count > 1)) {
        return WALDO__V4A_NOWHERE;
    }
    return waldo__v4a_find(&w->text, w->new, w->new_count, from, w->text.count, &pass);
}

static void not_found(work *w, const waldo__v4a_hunk *hunk, size_t from)
{
    size_t at;
    int pass;

    if (!fails(w, hunk)) {
        return;
    }
    at = find_applied(w, from);
    if (at != WALDO__V4A_NOWHERE) {
        w->is_applied = 1;
        waldo__buf_printf(w->why, "its new text is there already, at line %zu\n", at + 1);
        return;
    }
    at = waldo__v4a_find(&w->text, w->old, w->old_count, 0, from, &pass);
    if (at != WALDO__V4A_NOWHERE && at < w->cursor) {
        waldo__buf_printf(w->why,
                          "found at line %zu, which is before hunk %zu; hunks must be in file "
                          "order:\n",
                          at + 1, w->index);
        show_old(w);
        return;
    }
    if (at != WALDO__V4A_NOWHERE) {
        waldo__buf_printf(w->why, "found at line %zu, which is before its '@@' line:\n", at + 1);
        show_old(w);
        return;
    }
    waldo__buf_puts(w->why, "these lines were not found");
    if (from > 0) {
        waldo__buf_printf(w->why, " after line %zu", from);
    }
    waldo__buf_puts(w->why, ":\n");
    show_old(w);
    show_closest(w);
}

static void anchor_not_found(work *w, const waldo__v4a_hunk *hunk, waldo_str anchor, size_t from,
                             int is_ambiguous)
{
    if (!fails(w, hunk)) {
        return;
    }
    waldo__buf_puts(w->why, "this line was not found");
    if (from > 0) {
        waldo__buf_printf(w->why, " after line %zu", from);
    }
    waldo__buf_printf(w->why, "%s:\n  @@ ",
                      is_ambiguous ? ", and the lines of the hunk are there more than once" : "");
    add_text(w->why, anchor);
}

/* ---- finding the place ---- */

static void take_sides(work *w, const waldo__v4a_hunk *hunk)
{
    const waldo__v4a_line *lines = lines_of(w, hunk);

    w->old_count = w->new_count = 0;
    for (size_t i = 0; i < hunk->line_count; i++) {
        if (lines[i].kind != '+') {
            w->old[w->old_count++] = lines[i].text;
        }
        if (lines[i].kind != '-') {
            w->new[w->new_count++] = lines[i].text;
        }
    }
}

/* Where the lines behind the anchors begin; *ret_missed: 1 + an anchor that is not there. */
static size_t follow_anchors(work *w, const waldo__v4a_hunk *hunk, size_t *ret_missed)
{
    size_t from = w->cursor;
    int pass;

    *ret_missed = 0;
    for (size_t i = 0; i < hunk->anchor_count; i++) {
        size_t at = waldo__v4a_find(&w->text, &w->patch->anchors.at[hunk->first_anchor + i], 1,
                                    from, w->text.count, &pass);

        if (at != WALDO__V4A_NOWHERE) {
            from = at + 1;
        } else if (*ret_missed == 0) {
            *ret_missed = i + 1;
        }
    }
    return from;
}

/* Are the first count lines of old the last of the file, or the last but empty ones? */
static int find_at_end(work *w, size_t count, size_t from, place *p)
{
    size_t end = w->text.count;

    for (;;) {
        for (p->pass = WALDO__V4A_EXACT; p->pass < WALDO__V4A_NO_PASS; p->pass++) {
            if (end >= count && end - count >= from &&
                waldo__v4a_prefix(&w->text, w->old, count, end - count, p->pass) == count) {
                p->at = end - count;
                p->old_count = count;
                return 1;
            }
        }
        if (end < w->text.count || end == 0 || !waldo__v4a_is_blank(w->text.lines[end - 1].text)) {
            return 0;
        }
        while (end > 0 && waldo__v4a_is_blank(w->text.lines[end - 1].text)) {
            end--;
        }
    }
}

static int find_forward(work *w, size_t count, size_t from, place *p)
{
    p->at = waldo__v4a_find(&w->text, w->old, count, from, w->text.count, &p->pass);
    p->old_count = count;
    return p->at != WALDO__V4A_NOWHERE;
}

static int find_place(work *w, const waldo__v4a_hunk *hunk, size_t from, place *p)
{
    size_t count = w->old_count;
    int may_drop = count > 1 && w->old[count - 1].len == 0;

    if (hunk->at_end &&
        (find_at_end(w, count, from, p) || (may_drop && find_at_end(w, count - 1, from, p)))) {
        return 1;
    }
    p->end_missed = hunk->at_end;
    return find_forward(w, count, from, p) || (may_drop && find_forward(w, count - 1, from, p));
}

/* Lines that only go in, and not behind an anchor, go to the end of the file. */
static int is_append(const waldo__v4a_hunk *hunk)
{
    return hunk->old_count == 0 && (hunk->at_end || hunk->anchor_count == 0);
}

static void apply_hunk(work *w, const waldo__v4a_hunk *hunk)
{
    place p = { .pass = WALDO__V4A_EXACT };
    size_t from, missed;
    int is_found;

    take_sides(w, hunk);
    from = follow_anchors(w, hunk, &missed);
    p.at = from;
    if (w->old_count == 0 && missed == 0) {
        put_hunk(w, hunk, &p);
        return;
    }
    is_found = w->old_count > 0 && find_place(w, hunk, from, &p);
    if (missed > 0) {
        int is_ambiguous =
            is_found && waldo__v4a_find_pass(&w->text, w->old, p.old_count, p.at + 1, w->text.count,
                                             p.pass) != WALDO__V4A_NOWHERE;

        p.unanchored = missed;
        if (w->old_count == 0 || is_ambiguous) {
            anchor_not_found(w, hunk, w->patch->anchors.at[hunk->first_anchor + missed - 1], from,
                             is_ambiguous);
            return;
        }
    }
    if (!is_found) {
        not_found(w, hunk, from);
        return;
    }
    add_notes(w, hunk, &p);
    put_hunk(w, hunk, &p);
}

static void apply_all(work *w)
{
    const waldo__v4a_hunk *hunks = w->patch->hunks.at + w->section->first_hunk;

    for (w->index = 0; w->index < w->section->hunk_count; w->index++) {
        if (!is_append(&hunks[w->index])) {
            apply_hunk(w, &hunks[w->index]);
        }
    }
    keep_until(w, w->text.count);
    for (w->index = 0; w->index < w->section->hunk_count; w->index++) {
        if (is_append(&hunks[w->index])) {
            place p = { .at = w->text.count, .pass = WALDO__V4A_EXACT };

            take_sides(w, &hunks[w->index]);
            put_hunk(w, &hunks[w->index], &p);
        }
    }
}

static waldo_status make_sides(work *w)
{
    size_t most = 0;

    for (size_t i = 0; i < w->section->hunk_count; i++) {
        size_t count = w->patch->hunks.at[w->section->first_hunk + i].line_count;

        most = count > most ? count : most;
    }
    w->old = waldo__calloc(most + 1, sizeof *w->old);
    w->new = waldo__calloc(most + 1, sizeof *w->new);
    return w->old != NULL && w->new != NULL ? WALDO_OK : WALDO_ENOMEM;
}

/* What came of it, once all hunks were tried. */
static waldo_status outcome(work *w)
{
    if (w->text.steps == 0) {
        waldo__buf_clear(w->why);
        waldo__buf_puts(w->why, "it takes too long to find the place of each hunk: use fewer and "
                                "smaller hunks whose lines are exactly those of the file");
        return WALDO_ETOOBIG;
    }
    if (w->change->failed > 0) {
        return w->is_applied ? WALDO_EEXISTS : WALDO_EINVAL;
    }
    if (w->out->status == WALDO_ETOOBIG) {
        waldo__buf_puts(w->why, "the file would become larger than 32 MiB");
    }
    return w->out->status;
}

waldo_status waldo__v4a_apply(const waldo__v4a *patch, const waldo__v4a_section *section,
                              waldo_str text, waldo__buf *out, waldo__buf *notes, waldo__buf *why,
                              waldo__v4a_change *ret_change)
{
    work w = { .patch = patch,
               .section = section,
               .out = out,
               .notes = notes,
               .why = why,
               .change = ret_change,
               .count_steps = COUNT_STEPS };
    size_t mark = waldo__str_starts(text, "\xef\xbb\xbf") ? 3 : 0;
    waldo_status status;

    waldo__buf_add(out, text.ptr, mark);
    status = split(&w, waldo__slice(text.ptr + mark, text.len - mark));
    if (status == WALDO_OK) {
        status = make_sides(&w);
    }
    if (status == WALDO_OK) {
        apply_all(&w);
        status = outcome(&w);
    }
    waldo__free(w.text.lines);
    waldo__free(w.old);
    waldo__free(w.new);
    return status;
}

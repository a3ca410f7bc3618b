/*
 * Patches in the form that models are trained on ("*** Begin Patch", ...), parsed and applied to
 * text. I/O-free; memory and work are bounded whatever the patch and the files are.
 */
#ifndef WALDO_TOOLS_V4A_H
#define WALDO_TOOLS_V4A_H

#include "base/vec.h"
#include "json/json.h"

enum {
    WALDO__V4A_PATCH_MAX = 8 * 1024 * 1024, /* bytes of a patch */
    WALDO__V4A_SECTIONS_MAX = 1000,
    WALDO__V4A_FILE_MAX = 16 * 1024 * 1024, /* bytes of a file that is changed */
    WALDO__V4A_LINES_MAX = 1000 * 1000      /* lines of one */
};

typedef enum waldo__v4a_kind {
    WALDO__V4A_ADD = 1,
    WALDO__V4A_DELETE,
    WALDO__V4A_UPDATE
} waldo__v4a_kind;

typedef struct waldo__v4a_line {
    char kind; /* ' ', '-' or '+' */
    waldo_str text;
} waldo__v4a_line;

typedef struct waldo__v4a_hunk {
    size_t line; /* of the patch, from 1 */
    size_t first_anchor, anchor_count;
    size_t first_line, line_count;
    size_t old_count; /* of its lines, those that are not '+' */
    int at_end;       /* "*** End of File" */
} waldo__v4a_hunk;

typedef struct waldo__v4a_section {
    waldo__v4a_kind kind;
    size_t line;                   /* of the patch */
    waldo_str path;                /* not empty */
    waldo_str move_to;             /* empty: none */
    size_t first_hunk, hunk_count; /* of an update */
    size_t first_line, line_count; /* of an added file */
} waldo__v4a_section;

/* A parsed patch; its texts lie in the patch text, or in the document. */
typedef struct waldo__v4a {
    struct {
        WALDO__VEC(waldo__v4a_section);
    } sections;
    struct {
        WALDO__VEC(waldo__v4a_hunk);
    } hunks;
    struct {
        WALDO__VEC(waldo__v4a_line);
    } lines;
    struct {
        WALDO__VEC(waldo_str);
    } anchors;        /* no empty ones */
    waldo__json *doc; /* of a patch given as JSON operations */
} waldo__v4a;

/*
 * Parse a patch, which may be wrapped in a Markdown fence or a here-document, or be JSON:
 * {"type":"update_file","path":...,"diff":...}, {"operation":{}}, {"operations":[]} or an array.
 * Lines of the patch count from its begin marker. WALDO_EINVAL, WALDO_EJSON, WALDO_ETOOBIG with a
 * sentence for the model; WALDO_ENOMEM. The patch starts zeroed and is to be freed in any case.
 */
waldo_status waldo__v4a_parse(waldo__v4a *patch, waldo_str text, waldo_error **ret_err);

/* The same from a parsed value, which must live as long as the patch. */
waldo_status waldo__v4a_operations(waldo__v4a *patch, const waldo__json_value *value,
                                   waldo_error **ret_err);
void waldo__v4a_free(waldo__v4a *patch);

/* The form without what the parser forgives, for models whose server holds them to a grammar. */
extern const char waldo__v4a_grammar[];

/* Lines as a section or hunk body; for waldo__v4a_operations(). */
typedef struct waldo__v4a_source {
    waldo_str rest;
    size_t number; /* of the line in front of rest; 0 before the first */
} waldo__v4a_source;

waldo_status waldo__v4a_hunks(waldo__v4a *patch, waldo__v4a_section *section,
                              waldo__v4a_source *source, waldo_error **ret_err);
waldo_status waldo__v4a_added(waldo__v4a *patch, waldo__v4a_section *section,
                              waldo__v4a_source *source);

/* The next line, without its LF or CR LF; 0 at the end. */
int waldo__v4a_line_next(waldo__v4a_source *source, waldo_str *ret_line);

/* ---- matching (v4a_match.c) ---- */

/* How strictly lines are compared, strictest first. */
enum {
    WALDO__V4A_EXACT = 1,
    WALDO__V4A_TAIL,   /* without white space at the end */
    WALDO__V4A_TRIM,   /* without white space at both ends */
    WALDO__V4A_ALIKE,  /* and Unicode's dashes, quotes and spaces are those of ASCII */
    WALDO__V4A_NO_PASS /* nothing matched */
};

#define WALDO__V4A_NOWHERE ((size_t)-1)

int waldo__v4a_same(waldo_str a, waldo_str b, int pass);
int waldo__v4a_is_blank(waldo_str line);

typedef struct waldo__v4a_text_line {
    waldo_str text;    /* without its end */
    unsigned char end; /* bytes of it: 0 none, 1 LF, 2 CR LF */
} waldo__v4a_text_line;

/* A file in lines, and the work that may still be spent on it. */
typedef struct waldo__v4a_text {
    waldo__v4a_text_line *lines;
    size_t count;
    uint64_t steps;
} waldo__v4a_text;

/* First place in [from, to) where all of old matches under one pass, or NOWHERE. */
size_t waldo__v4a_find_pass(waldo__v4a_text *text, const waldo_str *old, size_t old_count,
                            size_t from, size_t to, int pass);

/* The same with the strictest pass that matches anywhere. */
size_t waldo__v4a_find(waldo__v4a_text *text, const waldo_str *old, size_t old_count, size_t from,
                       size_t to, int *ret_pass);

/* How many lines of old match at a place, one after the other. */
size_t waldo__v4a_prefix(waldo__v4a_text *text, const waldo_str *old, size_t old_count, size_t at,
                         int pass);

/* ---- applying (v4a_apply.c) ---- */

typedef struct waldo__v4a_change {
    size_t added, removed; /* lines */
    size_t failed;         /* hunks */
} waldo__v4a_change;

/*
 * Make the new content of a file that is updated: out. notes gets a line for each hunk that did not
 * match exactly. WALDO_EINVAL when a hunk does not apply: why says it for the first, WALDO_EEXISTS
 * when that one seems to be applied already. Other failures: WALDO_ETOOBIG with why, WALDO_ENOMEM.
 */
waldo_status waldo__v4a_apply(const waldo__v4a *patch, const waldo__v4a_section *section,
                              waldo_str text, waldo__buf *out, waldo__buf *notes, waldo__buf *why,
                              waldo__v4a_change *ret_change);

#endif

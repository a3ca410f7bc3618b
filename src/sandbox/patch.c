#include "sandbox/patch.h"

#include <stdio.h>

#include "base/alloc.h"
#include "sandbox/diff.h"
#include "sandbox/sha1.h"

enum {
    CONTEXT = 3,
    TEXT_MAX = 32 * 1024 * 1024, /* longer content is written as binary */
    LINE_BYTES = 52,             /* bytes in one line of a binary patch */
    STORED_MAX = 65535           /* bytes in one stored block of deflate */
};

int waldo__patch_path_ok(waldo_str path)
{
    waldo_str rest = path;
    waldo_str part;

    if (path.len == 0 || memchr(path.ptr, '\0', path.len) != NULL) {
        return 0;
    }
    while (waldo__str_split(&rest, '/', &part)) {
        if (part.len == 0 || waldo__str_is(part, ".") || waldo__str_is(part, "..") ||
            waldo__str_ieq(part, WALDO__S(".git"))) {
            return 0;
        }
    }
    return 1;
}

static uint32_t git_mode(uint32_t mode)
{
    if ((mode & 0170000u) == WALDO__PATCH_LINK) {
        return WALDO__PATCH_LINK;
    }
    return mode & 0100u ? 0100755u : 0100644u;
}

static int needs_quotes(waldo_str path)
{
    for (size_t i = 0; i < path.len; i++) {
        unsigned char byte = (unsigned char)path.ptr[i];

        if (byte < 0x20 || byte >= 0x7f || byte == '"' || byte == '\\') {
            return 1;
        }
    }
    return 0;
}

/* "a/path", in C quotes where git would put them. */
static void add_name(waldo__buf *out, const char *prefix, waldo_str path)
{
    if (!needs_quotes(path)) {
        waldo__buf_puts(out, prefix);
        waldo__buf_add_str(out, path);
        return;
    }
    waldo__buf_printf(out, "\"%s", prefix);
    for (size_t i = 0; i < path.len; i++) {
        unsigned char byte = (unsigned char)path.ptr[i];

        if (byte == '"' || byte == '\\') {
            waldo__buf_printf(out, "\\%c", byte);
        } else if (byte < 0x20 || byte >= 0x7f) {
            waldo__buf_printf(out, "\\%03o", byte);
        } else {
            waldo__buf_putc(out, (char)byte);
        }
    }
    waldo__buf_putc(out, '"');
}

/* A "---" or "+++" line; git marks the end of a name with blanks by a tab. */
static void add_name_line(waldo__buf *out, const char *mark, const char *prefix, waldo_str path,
                          int exists)
{
    waldo__buf_puts(out, mark);
    if (!exists) {
        waldo__buf_puts(out, "/dev/null\n");
        return;
    }
    add_name(out, prefix, path);
    waldo__buf_puts(out, !needs_quotes(path) && memchr(path.ptr, ' ', path.len) ? "\t\n" : "\n");
}

static void add_blob_id(waldo__buf *out, const waldo__patch_side *side)
{
    unsigned char digest[WALDO__SHA1_LEN] = { 0 };
    char head[32];
    int len;
    waldo__sha1 sha;

    if (side->mode != 0) {
        len = snprintf(head, sizeof head, "blob %zu", side->bytes.len);
        waldo__sha1_init(&sha);
        waldo__sha1_add(&sha, head, (size_t)len + 1); /* git hashes the NUL, too */
        waldo__sha1_add(&sha, side->bytes.ptr, side->bytes.len);
        waldo__sha1_finish(&sha, digest);
    }
    for (size_t i = 0; i < sizeof digest; i++) {
        waldo__buf_printf(out, "%02x", digest[i]);
    }
}

static void add_header(waldo__buf *out, waldo_str path, const waldo__patch_side *older,
                       const waldo__patch_side *newer)
{
    uint32_t old_mode = older->mode != 0 ? git_mode(older->mode) : 0;
    uint32_t new_mode = newer->mode != 0 ? git_mode(newer->mode) : 0;

    waldo__buf_puts(out, "diff --git ");
    add_name(out, "a/", path);
    waldo__buf_putc(out, ' ');
    add_name(out, "b/", path);
    waldo__buf_putc(out, '\n');
    if (old_mode == 0) {
        waldo__buf_printf(out, "new file mode %06o\n", new_mode);
    } else if (new_mode == 0) {
        waldo__buf_printf(out, "deleted file mode %06o\n", old_mode);
    } else if (old_mode != new_mode) {
        waldo__buf_printf(out, "old mode %06o\nnew mode %06o\n", old_mode, new_mode);
    }
    if (old_mode != 0 && new_mode != 0 && waldo__str_eq(older->bytes, newer->bytes)) {
        return;
    }
    waldo__buf_puts(out, "index ");
    add_blob_id(out, older);
    waldo__buf_puts(out, "..");
    add_blob_id(out, newer);
    if (old_mode != 0 && old_mode == new_mode) {
        waldo__buf_printf(out, " %06o", new_mode);
    }
    waldo__buf_putc(out, '\n');
}

/* ---- text ---- */

static void add_line(waldo__buf *out, char mark, waldo_str line)
{
    waldo__buf_putc(out, mark);
    waldo__buf_add_str(out, line);
    if (!waldo__str_ends(line, "\n")) {
        waldo__buf_puts(out, "\n\\ No newline at end of file\n");
    }
}

/* A hunk begins at old line i and new line j, CONTEXT lines before a change, and ends here. */
typedef struct hunk {
    size_t old_at;
    size_t new_at;
    size_t old_end;
    size_t new_end;
} hunk;

/* Walk over the lines of a hunk: deletions before insertions, as patches have it. */
static void add_hunk_lines(waldo__buf *out, const waldo__diff_side *older,
                           const waldo__diff_side *newer, const hunk *part)
{
    size_t i = part->old_at;
    size_t j = part->new_at;

    while (i < part->old_end || j < part->new_end) {
        if (i < part->old_end && older->changed[i]) {
            add_line(out, '-', older->lines[i++]);
        } else if (j < part->new_end && newer->changed[j]) {
            add_line(out, '+', newer->lines[j++]);
        } else {
            add_line(out, ' ', older->lines[i]);
            i++;
            j++;
        }
    }
}

static void add_hunk(waldo__buf *out, const waldo__diff_side *older, const waldo__diff_side *newer,
                     const hunk *part)
{
    size_t old_count = part->old_end - part->old_at;
    size_t new_count = part->new_end - part->new_at;

    waldo__buf_printf(out, "@@ -%zu,%zu +%zu,%zu @@\n", part->old_at + (old_count > 0), old_count,
                      part->new_at + (new_count > 0), new_count);
    add_hunk_lines(out, older, newer, part);
}

/* Find the changes, join those whose context would touch, write each group as a hunk. */
static void add_hunks(waldo__buf *out, const waldo__diff_side *older, const waldo__diff_side *newer)
{
    size_t i = 0;
    size_t j = 0;
    size_t quiet = 0; /* equal lines since the last change of the open hunk */
    int open = 0;
    hunk part = { 0 };

    while (i < older->count || j < newer->count) {
        int del = i < older->count && older->changed[i];
        int ins = j < newer->count && newer->changed[j];

        if (!del && !ins) {
            i++;
            j++;
            quiet++;
            if (open && quiet > 2 * CONTEXT) {
                part.old_end = i - quiet + CONTEXT;
                part.new_end = j - quiet + CONTEXT;
                add_hunk(out, older, newer, &part);
                open = 0;
            }
            continue;
        }
        if (!open) {
            size_t before = i < CONTEXT ? i : CONTEXT;

            before = before < j ? before : j;
            part = (hunk){ .old_at = i - before, .new_at = j - before };
            open = 1;
        }
        quiet = 0;
        i += (size_t)del;
        j += (size_t)(!del && ins);
    }
    if (open) {
        size_t after = quiet < CONTEXT ? quiet : CONTEXT;

        part.old_end = i - quiet + after;
        part.new_end = j - quiet + after;
        add_hunk(out, older, newer, &part);
    }
}

static waldo_status add_text(waldo__buf *out, waldo_str path, const waldo__patch_side *older,
                             const waldo__patch_side *newer)
{
    waldo__diff_side old_lines;
    waldo__diff_side new_lines = { 0 };
    waldo_status status = waldo__diff_side_init(&old_lines, older->bytes);

    if (status == WALDO_OK) {
        status = waldo__diff_side_init(&new_lines, newer->bytes);
    }
    if (status == WALDO_OK) {
        status = waldo__diff(&old_lines, &new_lines);
    }
    if (status == WALDO_OK) {
        add_name_line(out, "--- ", "a/", path, older->mode != 0);
        add_name_line(out, "+++ ", "b/", path, newer->mode != 0);
        add_hunks(out, &old_lines, &new_lines);
        status = out->status;
    }
    waldo__diff_side_free(&old_lines);
    waldo__diff_side_free(&new_lines);
    return status;
}

/* ---- binary: a zlib stream of stored blocks in git's base 85 ---- */

typedef struct lines85 {
    waldo__buf *out;
    unsigned char held[LINE_BYTES];
    size_t len;
} lines85;

static void flush85(lines85 *lines)
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                 "!#$%&()*+-;<=>?@^_`{|}~";
    size_t len = lines->len;

    if (len == 0) {
        return;
    }
    memset(lines->held + len, 0, LINE_BYTES - len);
    waldo__buf_putc(lines->out, (char)(len <= 26 ? 'A' + len - 1 : 'a' + len - 27));
    for (size_t i = 0; i < len; i += 4) {
        uint32_t word = (uint32_t)lines->held[i] << 24 | (uint32_t)lines->held[i + 1] << 16 |
                        (uint32_t)lines->held[i + 2] << 8 | lines->held[i + 3];
        char text[5];

        for (size_t j = sizeof text; j-- > 0; word /= 85) {
            text[j] = digits[word % 85];
        }
        waldo__buf_add(lines->out, text, sizeof text);
    }
    waldo__buf_putc(lines->out, '\n');
    lines->len = 0;
}

static void add85(lines85 *lines, const void *bytes, size_t len)
{
    const unsigned char *from = bytes;

    while (len > 0) {
        size_t part = LINE_BYTES - lines->len;

        part = part < len ? part : len;
        memcpy(lines->held + lines->len, from, part);
        lines->len += part;
        from += part;
        len -= part;
        if (lines->len == LINE_BYTES) {
            flush85(lines);
        }
    }
}

static uint32_t adler32(waldo_str bytes)
{
    uint32_t a = 1;
    uint32_t b = 0;

    for (size_t i = 0; i < bytes.len; i++) {
        a = (a + (unsigned char)bytes.ptr[i]) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

/* RFC 1950 and 1951: header, blocks of type 0 with their length twice, Adler-32. */
static void add_literal(waldo__buf *out, waldo_str bytes)
{
    static const unsigned char zlib_header[] = { 0x78, 0x01 };
    lines85 lines = { .out = out };
    uint32_t sum = adler32(bytes);
    unsigned char trailer[] = { (unsigned char)(sum >> 24), (unsigned char)(sum >> 16),
                                (unsigned char)(sum >> 8), (unsigned char)sum };
    size_t at = 0;

    waldo__buf_printf(out, "literal %zu\n", bytes.len);
    add85(&lines, zlib_header, sizeof zlib_header);
    do {
        size_t len = bytes.len - at < STORED_MAX ? bytes.len - at : STORED_MAX;
        unsigned char head[] = { at + len == bytes.len, (unsigned char)len,
                                 (unsigned char)(len >> 8), (unsigned char)~len,
                                 (unsigned char)(~len >> 8) };

        add85(&lines, head, sizeof head);
        add85(&lines, bytes.ptr + at, len);
        at += len;
    } while (at < bytes.len && out->status == WALDO_OK);
    add85(&lines, trailer, sizeof trailer);
    flush85(&lines);
    waldo__buf_putc(out, '\n');
}

static int is_binary(const waldo__patch_side *side)
{
    return side->bytes.len > TEXT_MAX ||
           (side->bytes.len > 0 && memchr(side->bytes.ptr, '\0', side->bytes.len) != NULL);
}

static waldo_status add_change(waldo__buf *out, waldo_str path, const waldo__patch_side *older,
                               const waldo__patch_side *newer)
{
    add_header(out, path, older, newer);
    if (waldo__str_eq(older->bytes, newer->bytes)) {
        return out->status; /* an empty file comes or goes, or the mode changes */
    }
    if (!is_binary(older) && !is_binary(newer)) {
        return add_text(out, path, older, newer);
    }
    waldo__buf_puts(out, "GIT binary patch\n");
    add_literal(out, newer->bytes);
    add_literal(out, older->bytes);
    return out->status;
}

waldo_status waldo__patch_add(waldo__buf *out, waldo_str path, const waldo__patch_side *older,
                              const waldo__patch_side *newer)
{
    static const waldo__patch_side absent = { .bytes = { "", 0 } };
    const waldo__patch_side *from = older->mode != 0 ? older : &absent;
    const waldo__patch_side *to = newer->mode != 0 ? newer : &absent;
    int both = from->mode != 0 && to->mode != 0;
    waldo_status status;

    if (!waldo__patch_path_ok(path)) {
        return WALDO_EPATH;
    }
    if (from->mode == to->mode || (both && git_mode(from->mode) == git_mode(to->mode))) {
        if (waldo__str_eq(from->bytes, to->bytes)) {
            return out->status;
        }
    }
    if (both && ((from->mode ^ to->mode) & 0170000u) != 0) {
        status = add_change(out, path, from, &absent);
        return status == WALDO_OK ? add_change(out, path, &absent, to) : status;
    }
    return add_change(out, path, from, to);
}

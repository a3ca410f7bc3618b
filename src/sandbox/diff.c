#include "sandbox/diff.h"

#include "base/alloc.h"

/* Edits above which the whole middle counts as changed; the trace takes 2 * EDITS_MAX^2 bytes. */
enum { EDITS_MAX = 1500 };

static uint64_t hash_line(waldo_str line)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < line.len; i++) {
        hash = (hash ^ (unsigned char)line.ptr[i]) * UINT64_C(1099511628211);
    }
    return hash;
}

void waldo__diff_side_free(waldo__diff_side *side)
{
    waldo__free(side->lines);
    waldo__free(side->hashes);
    waldo__free(side->changed);
    *side = (waldo__diff_side){ 0 };
}

waldo_status waldo__diff_side_init(waldo__diff_side *side, waldo_str text)
{
    size_t count = 0;
    size_t at = 0;

    *side = (waldo__diff_side){ 0 };
    for (size_t i = 0; i < text.len; i++) {
        count += text.ptr[i] == '\n' || i + 1 == text.len;
    }
    side->lines = waldo__calloc(count + 1, sizeof *side->lines);
    side->hashes = waldo__calloc(count + 1, sizeof *side->hashes);
    side->changed = waldo__calloc(count + 1, 1);
    if (side->lines == NULL || side->hashes == NULL || side->changed == NULL) {
        waldo__diff_side_free(side);
        return WALDO_ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        waldo_str rest = waldo__slice(text.ptr + at, text.len - at);
        size_t len = waldo__str_find(rest, '\n');

        len += len < rest.len;
        side->lines[i] = waldo__slice(rest.ptr, len);
        side->hashes[i] = hash_line(side->lines[i]);
        at += len;
    }
    side->count = count;
    return WALDO_OK;
}

static int same(const waldo__diff_side *a, size_t i, const waldo__diff_side *b, size_t j)
{
    return a->hashes[i] == b->hashes[j] && waldo__str_eq(a->lines[i], b->lines[j]);
}

/* The middle that remains between a common beginning and a common end. */
typedef struct middle {
    waldo__diff_side *older;
    waldo__diff_side *newer;
    size_t start; /* same on both sides */
    int32_t n;
    int32_t m;
} middle;

static int middle_same(const middle *mid, int32_t x, int32_t y)
{
    return same(mid->older, mid->start + (size_t)x, mid->newer, mid->start + (size_t)y);
}

static void mark_all(const middle *mid)
{
    memset(mid->older->changed + mid->start, 1, (size_t)mid->n);
    memset(mid->newer->changed + mid->start, 1, (size_t)mid->m);
}

/* Row d of the trace holds the furthest x on the diagonals -d, -d + 2, ..., d. */
static int32_t *row(int32_t *trace, int32_t d)
{
    return trace + (size_t)d * ((size_t)d + 1) / 2;
}

/*
 * Where a path to diagonal k with d edits comes from: 1 from above (an insertion), 0 from the left.
 */
static int from_above(const int32_t *before, int32_t d, int32_t k)
{
    int32_t at = (k + d) / 2; /* diagonal k - 1 is before[at - 1], k + 1 is before[at] */

    return k == -d || (k != d && before[at - 1] < before[at]);
}

/* Walk back from the end and mark each edit. */
static void mark_path(const middle *mid, int32_t *trace, int32_t d, int32_t k)
{
    for (; d > 0; d--) {
        const int32_t *before = row(trace, d - 1);
        int32_t at = (k + d) / 2;

        if (from_above(before, d, k)) {
            int32_t x = before[at];

            k++;
            mid->newer->changed[mid->start + (size_t)(x - k)] = 1;
        } else {
            int32_t x = before[at - 1];

            k--;
            mid->older->changed[mid->start + (size_t)x] = 1;
        }
    }
}

/* Myers, "An O(ND) Difference Algorithm", 1986, with the rows kept for the way back. */
static int search_path(const middle *mid, int32_t *trace, int32_t most)
{
    for (int32_t d = 0; d <= most; d++) {
        int32_t *now = row(trace, d);
        const int32_t *before = d > 0 ? row(trace, d - 1) : NULL;

        for (int32_t k = -d; k <= d; k += 2) {
            int32_t at = (k + d) / 2;
            int32_t x = 0;

            if (d > 0) {
                x = from_above(before, d, k) ? before[at] : before[at - 1] + 1;
            }
            while (x < mid->n && x - k >= 0 && x - k < mid->m && middle_same(mid, x, x - k)) {
                x++;
            }
            now[at] = x;
            if (x == mid->n && x - k == mid->m) {
                mark_path(mid, trace, d, k);
                return 1;
            }
        }
    }
    return 0;
}

waldo_status waldo__diff(waldo__diff_side *older, waldo__diff_side *newer)
{
    size_t start = 0;
    size_t end = 0;
    size_t n = older->count;
    size_t m = newer->count;
    middle mid = { .older = older, .newer = newer };
    int32_t *trace;
    int32_t most;

    while (start < n && start < m && same(older, start, newer, start)) {
        start++;
    }
    while (end < n - start && end < m - start && same(older, n - 1 - end, newer, m - 1 - end)) {
        end++;
    }
    mid.start = start;
    if (n - start - end > INT32_MAX / 4 || m - start - end > INT32_MAX / 4) {
        return WALDO_ETOOBIG;
    }
    mid.n = (int32_t)(n - start - end);
    mid.m = (int32_t)(m - start - end);
    if (mid.n == 0 || mid.m == 0) {
        mark_all(&mid);
        return WALDO_OK;
    }
    most = mid.n + mid.m < EDITS_MAX ? mid.n + mid.m : EDITS_MAX;
    trace = waldo__calloc((size_t)(most + 1) * (size_t)(most + 2) / 2, sizeof *trace);
    if (trace == NULL) {
        return WALDO_ENOMEM;
    }
    if (!search_path(&mid, trace, most)) {
        mark_all(&mid);
    }
    waldo__free(trace);
    return WALDO_OK;
}

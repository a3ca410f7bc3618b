/* Borrowed text. */
#ifndef WALDO_BASE_STR_H
#define WALDO_BASE_STR_H

#include <string.h>

#include <waldo/defs.h>

#define WALDO__S(literal) ((waldo_str){ (literal), sizeof(literal) - 1 })

waldo_str waldo__str(const char *text); /* NULL gives an empty one */

static inline waldo_str waldo__strn(const char *ptr, size_t len) /* the same */
{
    return (waldo_str){ ptr != NULL ? ptr : "", len };
}

/* A part of a text that is there. */
static inline waldo_str waldo__slice(const char *ptr, size_t len)
{
    return (waldo_str){ ptr, len };
}

int waldo__str_eq(waldo_str a, waldo_str b);
int waldo__str_is(waldo_str a, const char *b);
int waldo__str_starts(waldo_str text, const char *prefix);
int waldo__str_ends(waldo_str text, const char *suffix);
int waldo__str_ieq(waldo_str a, waldo_str b); /* ASCII letters without regard to case */
waldo_str waldo__str_trim(waldo_str text);    /* spaces, tabs, CR, LF at both ends */

/* Some text of ASCII letters, digits and what more holds. */
int waldo__str_made_of(waldo_str text, const char *more);

/* Position of a byte, or text.len. */
size_t waldo__str_find(waldo_str text, char byte);

/* Position of a needle at or after from, or text.len. */
size_t waldo__str_search(waldo_str text, waldo_str needle, size_t from);

/*
 * The part up to a separator, which is taken off the front of *rest; 0 when rest was used up. An
 * empty last part is given once.
 */
int waldo__str_split(waldo_str *rest, char separator, waldo_str *ret_part);

/* A whole decimal number, nothing else; 0 when it is not one or out of range. */
int waldo__str_int(waldo_str text, int64_t *ret_value);

#endif

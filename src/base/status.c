#include <waldo/status.h>

#include <stddef.h>

#include "base/alloc.h"

/* Names and texts in one piece: a place in it is a quarter of a pointer. */
static const struct words {
#define MEMBERS(name, value, retryable, text)                                                      \
    char name##_name[sizeof("WALDO_" #name)];                                                      \
    char name##_text[sizeof(text)];
    WALDO_STATUS_MAP(MEMBERS)
#undef MEMBERS
} words = {
#define VALUES(name, value, retryable, text) "WALDO_" #name, text,
    WALDO_STATUS_MAP(VALUES)
#undef VALUES
};

typedef struct row {
    short status;
    unsigned short retryable;
    unsigned short name; /* in words */
    unsigned short text;
} row;

static const row table[] = {
#define ROW(name, value, retryable, text)                                                          \
    { (value), (retryable), offsetof(struct words, name##_name),                                   \
      offsetof(struct words, name##_text) },
    WALDO_STATUS_MAP(ROW)
#undef ROW
};

static const row *find(waldo_status status)
{
    for (size_t i = 0; i < WALDO__COUNT(table); i++) {
        if (table[i].status == status) {
            return &table[i];
        }
    }
    return NULL;
}

const char *waldo_status_name(waldo_status status)
{
    const row *found = find(status);

    return found != NULL ? (const char *)&words + found->name : "WALDO_E?";
}

const char *waldo_status_text(waldo_status status)
{
    const row *found = find(status);

    return found != NULL ? (const char *)&words + found->text : "unknown status";
}

int waldo_status_retryable(waldo_status status)
{
    const row *found = find(status);

    return found != NULL ? found->retryable : 0;
}

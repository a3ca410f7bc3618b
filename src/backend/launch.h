/*
 * How the hand comes into a machine and starts: two files, one that the user of the commands runs
 * as the durable hand, and one that root alone has and that brings each stream to it. Each is gone
 * when it runs. The backend writes files and starts processes.
 */
#ifndef WALDO_BACKEND_LAUNCH_H
#define WALDO_BACKEND_LAUNCH_H

#include "backend/attach.h"
#include "backend/finder.h"

/* Root's: sh -c this PATH ADDRESS; its input and output are the stream. */
#define WALDO__LAUNCH_ATTACH                                                                       \
    "chmod 755 \"$0\" && exec 3<\"$0\" && rm -f \"$0\" && exec /proc/self/fd/3 attach \"$1\""

typedef struct waldo__launch_fns {
    /* Write waldo__hand_native() to a file that is the user's or root's; then _part(). */
    void (*bring)(void *owner, const char *path, int for_root);
    /* sh -c SCRIPT ARGS (from $0 on), as the user, without input; then _event() and _over(). */
    void (*start)(void *owner, const char *script, const char *const *args);
    /* The hand runs, or a part failed; from the run queue, and what start began may go. */
    void (*done)(void *owner, waldo_status status, const waldo_error *error);
    /* The answer to waldo__launch_again(); from the run queue. */
    void (*again)(void *owner, waldo_status status, const waldo_error *error);
} waldo__launch_fns;

typedef struct waldo__launch {
    const waldo__launch_fns *fns;
    void *owner;
    waldo__loop *loop;
    unsigned parts; /* that have not ended */
    int over;       /* what is brought from now on is for a stream */
    int told;
    int brought;    /* root's file is there, for one stream */
    unsigned tries; /* of bringing it for another one, which failed */
    int64_t lease_ms;
    waldo_status status; /* the first failure of a part */
    waldo_error *error;
    waldo__task task;                  /* of done and again */
    waldo__timer timer;                /* until it is brought once more */
    char path[WALDO__WORD_MAX + 40];   /* root's file */
    char address[WALDO__WORD_MAX + 8]; /* of the durable hand */
} waldo__launch;

void waldo__launch_init(waldo__launch *launch, waldo__loop *loop, const waldo__launch_fns *fns,
                        void *owner);
void waldo__launch_free(waldo__launch *launch); /* nothing is called any more */

/*
 * Bring both files, then start; more: parts of the backend's own, such as the folder, each of which
 * ends with _part(), too. mine: a word that nobody else has; run: label of the machine, which may
 * have a hand already: that one stays.
 */
void waldo__launch_begin(waldo__launch *launch, const char *mine, const char *run, int64_t lease_ms,
                         unsigned more);
void waldo__launch_part(waldo__launch *launch, waldo_status status, const waldo_error *error);
void waldo__launch_event(waldo__launch *launch, waldo__process_event event);
void waldo__launch_over(waldo__launch *launch, waldo_status status, const waldo_error *error);

/*
 * For another stream have root's file there, under path. What broke the stream may go on for a
 * while: a provider that cannot be reached, or is busy, is tried again for ten seconds.
 */
void waldo__launch_again(waldo__launch *launch);

#endif

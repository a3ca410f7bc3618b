/*
 * A store for tests that look at what is kept: all records of all streams as one text. It answers
 * at the commit, or when the test says so, and may refuse.
 */
#ifndef WALDO_TEST_RUN_KEEPER_H
#define WALDO_TEST_RUN_KEEPER_H

#include <waldo/sys/store.h>

enum { KEEPER_BYTES = 256 * 1024, KEEPER_WAITING = 256 };

/* Zeroed: takes everything. It is the test's, and must outlive the store. */
typedef struct keeper {
    /* of the test */
    int held;            /* appends wait for keeper_answer(), not for the commit */
    waldo_status answer; /* to every append; one that fails leaves no record */
    size_t only;         /* the one append, from 1, that gets the answer; 0: all */

    char text[KEEPER_BYTES]; /* the records, a newline behind each */
    size_t len;
    size_t count;     /* of records */
    size_t appends;   /* with those that failed */
    int out_of_order; /* an append expected another count of records */
    struct {
        waldo_store_done_fn done;
        void *userdata;
        waldo_status status;
    } waiting[KEEPER_WAITING];
    size_t waiting_count;
} keeper;

/* self is a keeper. */
extern const waldo_store_ops keeper_ops;

waldo_store *keeper_store(keeper *k);

/* Answer all that waits. */
void keeper_answer(keeper *k);

/* The record behind *at, which begins as 0; moves *at on. 0 behind the last one. */
int keeper_next(const keeper *k, size_t *at, waldo_str *ret_record);

/* How many records hold this. */
size_t keeper_holds(const keeper *k, const char *part);

#endif

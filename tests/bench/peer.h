/* Peers: programs of other languages that do the same in processes of their own, line by line. */
#ifndef WALDO_TESTS_BENCH_PEER_H
#define WALDO_TESTS_BENCH_PEER_H

#include "exec_case.h"

enum { BENCH_PEERS_MAX = 2 };

struct bench_peer {
    const char *arguments[2]; /* after its script */
    const char *once;         /* the line it reads for each, and answers with "ok" */
    const char *after;        /* the line for what follows each and is not timed; may be NULL */
    long (*requests)(void);   /* as in struct exec_case */
};

/* The peer with this index as a case. named: NAME PROGRAM SCRIPT. */
const struct exec_case *bench_peer_case(int index, char *const *named,
                                        const struct bench_peer *peer);

#endif

/*
 * Who a process is, as text for labels: so that another process, perhaps much later or elsewhere,
 * can tell whether that one still lives.
 */
#ifndef WALDO_BASE_IDENT_H
#define WALDO_BASE_IDENT_H

#include <sys/types.h>

#include "base/str.h"

typedef struct waldo__ident {
    char pid[16];
    char user[16];  /* number of the user */
    char start[96]; /* BOOT "/" start of the process in ticks since then */
    char host[64]; /* what tells machines apart, without naming the machine "/" process namespace */
} waldo__ident;

/* getpid() without a system call: often asked, since in a forked child objects are dead. */
pid_t waldo__process_id(void);

void waldo__ident_self(waldo__ident *ret_ident);

/* 1: that process lives on this machine; 0: it does not any more; -1: cannot be told from here. */
int waldo__ident_alive(waldo_str pid, waldo_str start, waldo_str host);

/* 1: the same user on this machine; 0: another user or machine; -1: the labels do not say. */
int waldo__ident_is_mine(waldo_str user, waldo_str start, waldo_str host);

#endif

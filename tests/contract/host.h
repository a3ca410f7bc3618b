/* What tests of the sandbox layer share: one runtime with one sandbox, and what it is told. */
#ifndef WALDO_TEST_CONTRACT_HOST_H
#define WALDO_TEST_CONTRACT_HOST_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "sandbox/sandbox.h"

typedef struct host {
    waldo_runtime *rt;
    waldo_sandbox *sandbox;
} host;

typedef struct told {
    int done;
    waldo_status status;
    char text[512]; /* of the error, or what was asked for */
} told;

host host_with(const waldo_sandbox_spec_options *options);
void host_drop(host *h);

void told_done(void *userdata, waldo_status status, const waldo_error *error);

/* Drive until it is told, once. */
told host_wait(const host *h, told *t);

/* Open, pause, end: whatever takes a sandbox alone. It is never told from inside the call. */
told host_ask(const host *h, void (*function)(waldo_sandbox *, waldo_sandbox_fn, void *));

#endif

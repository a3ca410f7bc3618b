/*
 * The contract suite: the same cases on every backend. A case that needs what a backend does not
 * offer by its capability bits is skipped, and says so.
 */
#ifndef WALDO_TESTS_CONTRACT_H
#define WALDO_TESTS_CONTRACT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/buf.h"
#include "sandbox/sandbox.h"

/* What one case works with. */
typedef struct contract {
    const waldo_backend_ops *backend;
    waldo_runtime *rt;
    waldo_sandbox *sandbox;
    char *folder; /* host directory of the case's own */
} contract;

/* Everything a completion may bring, copied. */
typedef struct outcome {
    int count; /* completions */
    waldo_status status;
    char message[1024];
    waldo__buf bytes;
    uint64_t file_size;
    size_t info_count;
    char names[4096]; /* of infos, each followed by a newline */
    uint32_t mode;    /* of the first info */
    uint64_t size;
} outcome;

void outcome_init(outcome *out);
void outcome_free(outcome *out);

/* Drive until the outcome is there. */
void drive(contract *c, outcome *out);

/* Completions that fill an outcome. */
void took_done(void *userdata, waldo_status status, const waldo_error *error);
void took_bytes(void *userdata, waldo_status status, waldo_str bytes, uint64_t file_size,
                const waldo_error *error);
void took_infos(void *userdata, waldo_status status, const waldo_file_info *infos, size_t count,
                const waldo_error *error);
void took_patch(void *userdata, waldo_status status, waldo_str patch, const waldo_error *error);

/* Blocking forms. */
waldo_exec_result *run(contract *c, const waldo_exec_options *options);
waldo_status run_status(contract *c, const waldo_exec_options *options, char *message, size_t size);
void expect_text(const waldo_output *output, const char *text);
void write_file(contract *c, const char *path, waldo_str bytes, uint32_t mode, outcome *out);
void read_file(contract *c, const char *path, uint64_t offset, size_t max, outcome *out);

/* A second sandbox of the same backend. options may name everything but backends. */
waldo_sandbox *other_sandbox(contract *c, const char *more, const char *workspace,
                             waldo_workspace_mode mode);
void close_sandbox(contract *c, waldo_sandbox *sandbox);

int offers(const contract *c, uint32_t bits);
#define NEED(c, bits)                                                                              \
    do {                                                                                           \
        if (!offers(c, bits)) {                                                                    \
            print_message("    not offered by %s (bits %#x)\n", (c)->backend->name,                \
                          (unsigned)(bits));                                                       \
            skip();                                                                                \
        }                                                                                          \
    } while (0)

/* A file on the host below c->folder. */
void host_write(contract *c, const char *path, const void *bytes, size_t len, unsigned mode);

extern const char *contract_target; /* of the sandbox string */

int contract_setup(void **state);
int contract_teardown(void **state);

/* The groups; each returns cmocka's count of failures. */
extern const struct CMUnitTest exec_cases[];
extern const size_t exec_case_count;
extern const struct CMUnitTest file_cases[];
extern const size_t file_case_count;
extern const struct CMUnitTest life_cases[];
extern const size_t life_case_count;
extern const struct CMUnitTest background_cases[];
extern const size_t background_case_count;
extern const struct CMUnitTest spare_cases[];
extern const size_t spare_case_count;
extern const struct CMUnitTest terminal_cases[];
extern const size_t terminal_case_count;
extern const struct CMUnitTest machine_cases[];
extern const size_t machine_case_count;
extern const struct CMUnitTest snapshot_cases[];
extern const size_t snapshot_case_count;

#endif

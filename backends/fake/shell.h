/* The commands of a fake machine; docs/backends/fake.md lists them. */
#ifndef WALDO_FAKE_SHELL_H
#define WALDO_FAKE_SHELL_H

#include "base/buf.h"
#include "inmem/tree.h"
#include <waldo/sys/backend.h>

typedef struct fake_shell fake_shell;

/* What the machine does next for a running command. */
typedef enum fake_step {
    FAKE_DONE,  /* exit_code is set */
    FAKE_SLEEP, /* for sleep_ns, then waldo__fake_shell_run() again */
    FAKE_FAIL,  /* the machine cannot say how it ended */
    FAKE_LOSE   /* the machine is gone */
} fake_step;

struct fake_shell {
    waldo__tree *tree;
    waldo__buf program; /* text, or the words of argv with NUL between */
    size_t at;
    int is_argv;
    int exit_code;
    int64_t sleep_ns;
    char *cwd;
    waldo__buf input;
    char **env; /* NULL-terminated */
    void (*output)(void *userdata, int stream, waldo_str bytes);
    void *userdata;
};

/* WALDO_ESTART: the program is not one of ours. Everything is copied. */
waldo_status waldo__fake_shell_init(fake_shell *shell, waldo__tree *tree,
                                    const waldo_backend_exec *exec);
fake_step waldo__fake_shell_run(fake_shell *shell);
void waldo__fake_shell_free(fake_shell *shell);

#endif

/*
 * Ctrl-C. Signals are waited for by a thread of the program's own, which may call what a handler may
 * not: the first asks the work to stop and the sandbox to be ended, the second leaves at once.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "cli.h"

static atomic_int interrupted;
static sigset_t signals;

static void *wait_for_signals(void *userdata)
{
    waldo_cancel *cancel = userdata;
    int signal_number;

    while (sigwait(&signals, &signal_number) == 0) {
        if (atomic_exchange(&interrupted, 1)) {
            _exit(EXIT_INTERRUPTED);
        }
        static const char text[] = "\nwaldo: stopping; once more to leave at once\n";

        if (write(STDERR_FILENO, text, sizeof text - 1) < 0) {
            /* nobody is left to read it */
        }
        waldo_cancel_trigger(cancel);
    }
    return NULL;
}

int stop_on_signals(waldo_cancel *cancel)
{
    pthread_t thread;

    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    if (pthread_sigmask(SIG_BLOCK, &signals, NULL) != 0 ||
        pthread_create(&thread, NULL, wait_for_signals, waldo_cancel_ref(cancel)) != 0) {
        return 0;
    }
    pthread_detach(thread);
    return 1;
}

int was_interrupted(void)
{
    return atomic_load(&interrupted);
}

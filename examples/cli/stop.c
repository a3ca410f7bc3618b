/*
 * Ctrl-C. Signals are waited for by a thread of the program's own, which may call what a handler
 * may not: the first asks the work to stop and the sandbox to be ended, the second leaves at once.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "cli.h"

static struct {
    atomic_int interrupted;
    int pipe[2]; /* a byte in it: interrupted */
    sigset_t signals;
    waldo_poster *poster; /* kept to the end: the thread may always need it */
    waldo_post_fn stop;
    waldo_post_fn resized;
    void *userdata;
} state = { .pipe = { -1, -1 } };

static void put(int fd, const char *text, size_t len)
{
    if (write(fd, text, len) < 0) {
        return; /* nobody is left to read it */
    }
}

static void *wait_for_signals(void *unused)
{
    static const char text[] = "\nwaldo: stopping; once more to leave at once\n";
    int number;

    (void)unused;
    while (sigwait(&state.signals, &number) == 0) {
        if (number == SIGWINCH) {
            waldo_poster_post(state.poster, state.resized, state.userdata);
            continue;
        }
        if (atomic_exchange(&state.interrupted, 1)) {
            terminal_restore();
            _exit(EXIT_INTERRUPTED);
        }
        put(state.pipe[1], "", 1);
        put(STDERR_FILENO, text, sizeof text - 1);
        waldo_poster_post(state.poster, state.stop, state.userdata);
    }
    return NULL;
}

/* A signal that was ignored from the start stays so: nohup, or a shell's background jobs. */
static void want_signal(int number)
{
    struct sigaction now;

    if (sigaction(number, NULL, &now) == 0 && now.sa_handler != SIG_IGN) {
        sigaddset(&state.signals, number);
    }
}

void stop_tells_size(waldo_post_fn resized)
{
    state.resized = resized;
}

int stop_on_signals(waldo_runtime *rt, waldo_post_fn stop, void *userdata)
{
    pthread_t thread;

    state.stop = stop;
    state.userdata = userdata;
    state.poster = waldo_runtime_poster(rt);
    sigemptyset(&state.signals);
    want_signal(SIGINT);
    want_signal(SIGTERM);
    want_signal(SIGHUP);
    if (state.resized != NULL) {
        sigaddset(&state.signals, SIGWINCH);
    }
    if (state.poster == NULL || pipe2(state.pipe, O_CLOEXEC | O_NONBLOCK) != 0 ||
        pthread_sigmask(SIG_BLOCK, &state.signals, NULL) != 0 ||
        pthread_create(&thread, NULL, wait_for_signals, NULL) != 0) {
        complain("cannot watch for signals: %m");
        return 0;
    }
    pthread_detach(thread);
    return 1;
}

int was_interrupted(void)
{
    return atomic_load(&state.interrupted);
}

void stop_again(void)
{
    char byte;

    while (read(state.pipe[0], &byte, 1) > 0) {
    }
    atomic_store(&state.interrupted, 0);
}

int stop_fd(void)
{
    return state.pipe[0];
}

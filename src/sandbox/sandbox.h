/*
 * The sandbox layer, as the agent and the tools see it beside <waldo/sandbox.h>: file operations,
 * what a machine can do, and turns for edits. What commands and files mean is decided here, once,
 * for all backends.
 */
#ifndef WALDO_SANDBOX_SANDBOX_H
#define WALDO_SANDBOX_SANDBOX_H

#include "loop/loop.h"
#include <waldo/sys/backend.h>

/* Where every machine keeps its workspace. */
#define WALDO__WORKSPACE "/workspace"

/* Services a sandbox needs from its runtime; implemented by the agent module. */
const waldo_backend_env *waldo__runtime_backend_env(waldo_runtime *rt);
const char *waldo__runtime_state_dir(const waldo_runtime *rt);
const char *waldo__runtime_owner(const waldo_runtime *rt);    /* label of this host process */
waldo_status waldo__runtime_accepts(const waldo_runtime *rt); /* WALDO_ECLOSED, WALDO_EFORKED */

/* The runtime's list of sandboxes, for close and free: one intrusive node each. */
typedef struct waldo__sandbox_node {
    struct waldo__sandbox_node *next;
    struct waldo__sandbox_node *prev;
} waldo__sandbox_node;

waldo__sandbox_node *waldo__runtime_sandboxes(waldo_runtime *rt); /* head of a ring */
/* one was unlinked: close may be complete now */
void waldo__runtime_sandbox_gone(waldo_runtime *rt);
waldo_sandbox *waldo__sandbox_of_node(waldo__sandbox_node *node);

/* Close, with so many milliseconds for commands between TERM and KILL. */
void waldo__sandbox_end(waldo_sandbox *sandbox, int64_t grace_ms);

/*
 * End at once, without completion beyond what is pending (those come with WALDO_ECANCELED before it
 * returns): processes killed, scratch removed. The object stays valid and closed until its last
 * reference is gone.
 */
void waldo__sandbox_abandon(waldo_sandbox *sandbox);

/* A spec from one sandbox string and a run's own workspace; remembers errors as usual. */
waldo_sandbox_spec *waldo__sandbox_spec_derive(waldo_sandbox_spec *base, const char *sandbox_string,
                                               const char *workspace, waldo_workspace_mode mode);

/* One paragraph for the model: network, workspace, user, limits. Static or owned by the spec. */
const char *waldo__sandbox_spec_notes(const waldo_sandbox_spec *spec);
const char *waldo__sandbox_notes(const waldo_sandbox *sandbox);

/*
 * Lifecycle news: "opened", "limited" (the machine is less than its class says), "closed", "lost",
 * "rejoined" (its stream broke, it goes on), "paused", "resumed", "refused" (not to be had: the
 * next backend is tried), "moved" (another machine has taken the place of the lost one), "unsaved"
 * (there will be no newer snapshot), with a sentence; "saved" with what waldo_sandbox_save() gives,
 * for a machine that is kept; "snapshot" with its bytes, in decimal. Called from the run queue.
 */
typedef void (*waldo__sandbox_news_fn)(void *userdata, const char *what, const char *text);
typedef struct waldo__sandbox_listener {
    struct waldo__sandbox_listener *next;
    waldo__sandbox_news_fn fn;
    void *userdata;
} waldo__sandbox_listener;

void waldo__sandbox_listen(waldo_sandbox *sandbox, waldo__sandbox_listener *listener);
/* For a listener: which machine it is told of, which may not be the present one. */
uint32_t waldo__sandbox_news_generation(const waldo_sandbox *sandbox);
void waldo__sandbox_unlisten(waldo_sandbox *sandbox, waldo__sandbox_listener *listener);

/* ---- going on in another machine ---- */

/* It is lost, or may be, and another one is not there yet: what is begun now waits for that. */
int waldo__sandbox_moving(const waldo_sandbox *sandbox);

/* What models have to know of changes of the machine, in order; "" for what came to nothing. */
size_t waldo__sandbox_notice_count(const waldo_sandbox *sandbox);
const char *waldo__sandbox_notice(const waldo_sandbox *sandbox, size_t index);

/* Where one that comes now begins: with the newest, when its own notes are wrong of the network. */
size_t waldo__sandbox_notice_first(const waldo_sandbox *sandbox);

/* A good moment for a snapshot, where the spec wants them. Nobody waits for it. */
void waldo__sandbox_checkpoint(waldo_sandbox *sandbox);

/* ---- files beyond read and write; paths absolute or relative to the workspace ---- */

typedef void (*waldo__infos_fn)(void *userdata, waldo_status status, const waldo_file_info *infos,
                                size_t count, const waldo_error *error);

void waldo__sandbox_stat(waldo_sandbox *sandbox, const char *path, waldo__infos_fn done,
                         void *userdata); /* one info; links are not followed */

/*
 * Entries sorted by name; recursive: names are paths below path, links are not entered; at most
 * max.
 */
void waldo__sandbox_list(waldo_sandbox *sandbox, const char *path, int recursive, size_t max,
                         waldo__infos_fn done, void *userdata);
void waldo__sandbox_mkdir(waldo_sandbox *sandbox, const char *path, waldo_sandbox_fn done,
                          void *userdata); /* parents too; existing is fine */
void waldo__sandbox_remove(waldo_sandbox *sandbox, const char *path, int recursive,
                           waldo_sandbox_fn done, void *userdata);
void waldo__sandbox_rename(waldo_sandbox *sandbox, const char *from, const char *to,
                           waldo_sandbox_fn done, void *userdata);

/* ---- turns: edits of one sandbox happen one after the other ---- */

typedef struct waldo__turn {
    struct waldo__turn *next;
    struct waldo__turn *prev;
    waldo__task_fn granted; /* from the run queue */
    void *userdata;
    int held;
} waldo__turn;

void waldo__sandbox_turn_take(waldo_sandbox *sandbox, waldo__turn *turn);
/* also while still waiting */
void waldo__sandbox_turn_give(waldo_sandbox *sandbox, waldo__turn *turn);

#endif

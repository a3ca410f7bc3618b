/**
 * @file
 * For authors of backends. Stable within a minor version only.
 *
 * A backend supplies transport: it opens and ends machines, and gives either a byte stream to the
 * hand inside or a plain "run this argv". What jobs, files, timeouts, caps and trees mean is
 * decided once, in the sandbox layer. A backend knows nothing of agents.
 */
#ifndef WALDO_SYS_BACKEND_H
#define WALDO_SYS_BACKEND_H

#include <waldo/fleet.h>
#include <waldo/sandbox.h>
#include <waldo/sys/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WALDO_BACKEND_VERSION 3u

/** What a backend can do. A case of the contract suite it cannot meet is "not offered" by a bit. */
enum {
    WALDO_BACKEND_CHANNEL = 1u << 0,   /* channel works: commands and files go through the hand */
    WALDO_BACKEND_EXEC1 = 1u << 1,     /* exec1 works */
    WALDO_BACKEND_FILES = 1u << 2,     /* native file operations */
    WALDO_BACKEND_BIND = 1u << 3,      /* workspace modes ro and rw */
    WALDO_BACKEND_STDIN = 1u << 4,     /* commands can be written to */
    WALDO_BACKEND_SIGNAL = 1u << 5,    /* commands can be signalled */
    WALDO_BACKEND_TREE_KILL = 1u << 6, /* timeouts and cancels end whole trees */
    WALDO_BACKEND_PTY = 1u << 7,
    WALDO_BACKEND_ATTACH = 1u << 8, /* a new host process finds running commands again */
    WALDO_BACKEND_PAUSE = 1u << 9,  /* pause and resume work */
    WALDO_BACKEND_SNAPSHOT = 1u << 10,
    WALDO_BACKEND_PORTS = 1u << 11,
    WALDO_BACKEND_NET_ALL = 1u << 12,
    WALDO_BACKEND_NET_HOSTS = 1u << 13,
    WALDO_BACKEND_NET_PACKAGES = 1u << 14,
    WALDO_BACKEND_LIMITS = 1u << 15,   /* memory and process limits hold for the machine */
    WALDO_BACKEND_SEPARATE = 1u << 16, /* standard output and error are told apart */
    WALDO_BACKEND_ADOPT = 1u << 17,    /* machines made elsewhere can be used: spec.attach */
    WALDO_BACKEND_SET_NET = 1u << 18   /* set_net works, for the levels of the NET_* bits */
};

/** A KEY=VALUE of the sandbox string that the sandbox layer has no use for itself. */
typedef struct waldo_backend_option {
    waldo_str key;
    waldo_str value;
} waldo_backend_option;

/** Of waldo_backend_spec.flags. */
enum {
    WALDO_BACKEND_FIND = 1u << 0,
    WALDO_BACKEND_LEASE = 1u << 1 /* lease_ms was asked for, and is not what a name brings along */
};

/** What a machine is to be. Everything is borrowed for the call. */
typedef struct waldo_backend_spec {
    uint32_t size;
    waldo_workspace_mode workspace_mode;
    waldo_str target;                    /* between the colon and the first comma */
    const waldo_backend_option *options; /* the backend's own */
    size_t option_count;
    const char *workspace; /* host directory, for modes ro and rw; else NULL */
    /* Host directory of this sandbox alone, mode 0700; NULL without CHANNEL, BIND and workspace. */
    const char *scratch;
    const char *const *env;
    const char *const *hosts;
    waldo_net net;
    int32_t reserved;
    uint64_t memory_bytes; /* 0: the backend's default */
    double cpus;
    uint32_t max_processes;
    uint32_t flags;    /* WALDO_BACKEND_FIND */
    const char *owner; /* label: this host process */
    const char *id;    /* label: this sandbox */
    int64_t lease_ms;  /* above 0: outlives this process, for so long; below UINT32_MAX */
    /*
     * The machine of this name is wanted: reached when it is there, else made, one of several
     * processes at once; NULL: a new one. With WALDO_BACKEND_FIND it is never made
     * (WALDO_ENOTFOUND), and target is empty. Letters, digits, "_", ".", "-".
     */
    const char *name;
    /* The least grade asked for: parse refuses what the options cannot give. */
    waldo_isolation min_isolation;
    uint32_t reserved3;
    /*
     * Since version 3, with ADOPT. The machine of this id is used, which was made elsewhere: it is
     * never made and never ended, and what is brought in is taken out again. Not with a name; net
     * is WALDO_NET_DEFAULT, nothing limits it. describe says REJOINS and FOREIGN. A saved state
     * counts more. 1 to 256 printable characters without spaces.
     */
    const char *attach;
    /*
     * Since version 3. For open to call, from dispatch and before it completes: what takes so long,
     * in words, such as the image that is fetched, and each of its layers. NULL: nobody hears it.
     */
    void (*on_progress)(void *userdata, const char *text);
    void *progress_userdata;
} waldo_backend_spec;

/** Services of the runtime for a backend; in-tree backends use the internal headers with them. */
typedef struct waldo_backend_env {
    uint32_t size;
    uint32_t reserved;
    struct waldo__loop *loop;
    struct waldo__http *http;
    struct waldo__secrets *secrets;
    void (*log)(struct waldo__loop *loop, waldo_log_level level, const char *area,
                const char *line);
    /**
     * Have a key of this name in secrets, from the host's source of keys unless it is there; renew:
     * ask the source again, for a provider has refused it. WALDO_EAUTH names the key.
     */
    waldo_status (*key)(const struct waldo_backend_env *env, const char *name, int renew,
                        waldo_error **ret_err);
} waldo_backend_env;

/**
 * A wait for a time, or for somebody to cancel: how a backend comes back to its work, since no op
 * completes from inside of itself.
 */
typedef struct waldo_backend_wait waldo_backend_wait;

/** From dispatch; cancelled: 1 when the cancel object was triggered, else the time has come. */
typedef void (*waldo_backend_wake_fn)(void *userdata, int cancelled);

/**
 * Make a wait. It sleeps until waldo_backend_wait_until() or its cancel object says otherwise.
 *
 * @param env       of the runtime, must outlive the wait, as it does every machine
 * @param cancel    wakes it, once, whatever it waits for; gets a reference; may be NULL
 * @param wake      called from dispatch, once for each time that comes; the wait may be freed there
 * @param userdata  given to wake
 * @return free with waldo_backend_wait_free(); NULL when out of memory
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_backend_wait *waldo_backend_wait_new(const waldo_backend_env *env,
                                                     waldo_cancel *cancel,
                                                     waldo_backend_wake_fn wake, void *userdata);

/**
 * Be woken at a time, in place of any time before.
 *
 * @param wait    exclusive
 * @param due_ns  nanoseconds of CLOCK_MONOTONIC; INT64_MAX: never; 0: as soon as possible, which
 *                does not fail
 * @retval WALDO_OK     it will be woken
 * @retval WALDO_ENOMEM out of memory: it will not be woken by time
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_status waldo_backend_wait_until(waldo_backend_wait *wait, int64_t due_ns);

/**
 * @param wait  taken, wake is not called any more; NULL is a no-op
 * Thread: driving. Since: 0.1.
 */
WALDO_API void waldo_backend_wait_free(waldo_backend_wait *wait);

/** One machine of a backend; the backend's own. */
typedef struct waldo_machine waldo_machine;

/** What one open machine is, where that depends on more than its class. */
typedef struct waldo_machine_info {
    uint32_t size;
    uint32_t caps; /* WALDO_BACKEND_*; none of NET_* and BIND beyond those of the class */
    waldo_isolation isolation;
    uint32_t uid; /* owner of what it unpacks from an archive (restore) */
    uint32_t gid;
    int32_t reached;  /* 1: it was there before: not made now, and perhaps in use */
    const char *note; /* why it is less than its class; lives as long as the machine; or NULL */
    uint32_t flags;   /* WALDO_MACHINE_*; since version 3 */
    uint32_t reserved;
} waldo_machine_info;

enum {
    /*
     * The machine and its hand go on when the stream to it breaks: channel makes another, without
     * a lease, too. Background commands go on then, others end as lost.
     */
    WALDO_MACHINE_REJOINS = 1u << 0,
    /* Made elsewhere (spec.attach): before close its hand, which was brought in, is shut down. */
    WALDO_MACHINE_FOREIGN = 1u << 1
};

/** Limits of one operation. */
typedef struct waldo_backend_call {
    uint32_t size;
    uint32_t reserved;
    int64_t deadline_ns;  /* monotonic; INT64_MAX: none */
    waldo_cancel *cancel; /* may be NULL; gets a reference if kept */
    void *userdata;       /* given to the completion */
} waldo_backend_call;

/** Completions: exactly once, never from inside the op; everything is borrowed for the call. */
typedef void (*waldo_backend_done_fn)(void *userdata, waldo_status status,
                                      const waldo_error *error);
typedef void (*waldo_backend_bytes_fn)(void *userdata, waldo_status status, waldo_str bytes,
                                       const waldo_error *error);

/** A duplex byte stream to the hand. Made by a backend, used by one hand session. */
typedef struct waldo_channel waldo_channel;

/** What the hand session wants to hear from its channel; all from dispatch. */
typedef struct waldo_channel_events {
    uint32_t size;
    uint32_t reserved;
    void *userdata;
    void (*on_bytes)(void *userdata, waldo_str bytes);
    void (*on_drained)(void *userdata); /* what send() had queued is on its way */
    /** The stream is over, called once; nothing comes after. */
    void (*on_closed)(void *userdata, waldo_status status, const waldo_error *error);
    /** What the hand or the machine printed beside the stream: a diagnostic, bounded. */
    void (*on_diagnostic)(void *userdata, waldo_str bytes);
} waldo_channel_events;

typedef struct waldo_channel_ops {
    uint32_t version; /* WALDO_BACKEND_VERSION */
    uint32_t size;
    void (*listen)(waldo_channel *channel, const waldo_channel_events *events); /* copied */
    /** Queue bytes, copied. WALDO_ECLOSED after on_closed or close. */
    waldo_status (*send)(waldo_channel *channel, waldo_str bytes);
    size_t (*queued)(const waldo_channel *channel);    /* bytes not yet on their way */
    void (*pause)(waldo_channel *channel, int paused); /* stop or go on reading */
    void (*close)(waldo_channel *channel);             /* frees; no event comes after */
} waldo_channel_ops;

/** First member of every channel. */
struct waldo_channel {
    const waldo_channel_ops *ops;
};

typedef void (*waldo_backend_channel_fn)(void *userdata, waldo_status status,
                                         waldo_channel *channel, const waldo_error *error);

/** A plain command, for backends without a channel. Borrowed for the call. */
typedef struct waldo_backend_exec {
    uint32_t size;
    uint32_t flags; /* WALDO_EXEC_MERGE */
    const char *const *argv;
    const char *const *env;
    const char *cwd;
    waldo_str input;
    int64_t timeout_ms; /* WALDO_FOREVER: none */
    int64_t grace_ms;
    waldo_output_fn on_output; /* every byte, in the order it was read */
} waldo_backend_exec;

/** How it ended; end is WALDO_EXEC_*. */
typedef void (*waldo_backend_exec_fn)(void *userdata, waldo_status status, waldo_exec_end end,
                                      int exit_code, int signal, const waldo_error *error);

/** What a path is. */
typedef struct waldo_file_info {
    uint32_t size;
    uint32_t mode; /* type and permission bits as on Linux */
    uint64_t bytes;
    int64_t mtime_ns;
    waldo_str name; /* of a list entry */
    waldo_str link_target;
} waldo_file_info;

typedef void (*waldo_backend_info_fn)(void *userdata, waldo_status status,
                                      const waldo_file_info *infos, size_t count,
                                      const waldo_error *error);
/** One machine that exists; the core sets info.backend. */
typedef waldo_sandbox_info_fn waldo_backend_id_fn;

/**
 * What a backend implements. Append-only: new members come at the end and raise the version; the
 * core checks version and size before it calls a newer one. Every op returns at once, completes
 * exactly once and obeys deadline and cancel.
 */
typedef struct waldo_backend_ops {
    uint32_t version;                /* WALDO_BACKEND_VERSION */
    uint32_t size;                   /* sizeof(waldo_backend_ops) */
    const char *name;                /* before the colon of a sandbox string; static */
    const char *about;               /* one line; static */
    const char *const *option_names; /* own KEYs of sandbox strings, NULL-terminated; static */
    waldo_isolation isolation;
    uint32_t caps; /* WALDO_BACKEND_* */

    /* ---- class ---- */

    /** Mandatory. Check target and options; pure. */
    waldo_status (*parse)(const waldo_backend_spec *spec, waldo_error **ret_err);
    /** Mandatory. Can machines be opened here? A failure says why not and what to do. */
    void (*probe)(const waldo_backend_env *env, const waldo_backend_call *call,
                  waldo_backend_done_fn done);
    /** Optional. Every machine with our labels, one after the other, before done. */
    void (*list_sandboxes)(const waldo_backend_env *env, const waldo_backend_call *call,
                           waldo_backend_id_fn each, waldo_backend_done_fn done);
    /** Optional. End a machine with our labels by its id; WALDO_ENOTFOUND when there is none. */
    void (*destroy_id)(const waldo_backend_env *env, const waldo_backend_call *call, const char *id,
                       waldo_backend_done_fn done);

    /* ---- one machine ---- */

    /**
     * Mandatory. Make a machine, or reach the one of a saved state. *ret_machine is set before the
     * completion, so that close can end a half-made one. An image that is fetched first takes as
     * long as it takes: then the deadline counts no more, but silence is bounded.
     */
    waldo_status (*open)(const waldo_backend_env *env, const waldo_backend_spec *spec,
                         waldo_str saved, const waldo_backend_call *call,
                         waldo_backend_done_fn done, waldo_machine **ret_machine,
                         waldo_error **ret_err);
    /**
     * With ATTACH. The bytes that open needs to reach this machine again: UTF-8 text of at most
     * 64 KiB, no secrets. What comes back from elsewhere is not to be trusted.
     */
    void (*save)(waldo_machine *machine, const waldo_backend_call *call,
                 waldo_backend_bytes_fn done);
    /**
     * Mandatory. End the machine and all that runs in it, in any state, and free it when done was
     * called. Channels were closed before. Completes within the deadline, come what may; what
     * else is in progress completes before that, or not at all.
     */
    void (*close)(waldo_machine *machine, const waldo_backend_call *call,
                  waldo_backend_done_fn done);
    /** Mandatory. End and free at once, without completion: processes of ours are killed. */
    void (*abandon)(waldo_machine *machine);

    /** This or exec1. A stream to a hand that runs inside; the caller closes the channel. */
    void (*channel)(waldo_machine *machine, const waldo_backend_call *call,
                    waldo_backend_channel_fn done);
    /** This or channel. One command; on_output and done get the userdata of call. */
    void (*exec1)(waldo_machine *machine, const waldo_backend_exec *exec,
                  const waldo_backend_call *call, waldo_backend_exec_fn done);

    /* ---- optional, where the provider does it natively and exactly ---- */

    void (*attach_job)(waldo_machine *machine, const char *job, uint64_t offset,
                       const waldo_backend_call *call, waldo_output_fn on_output,
                       waldo_backend_exec_fn done);
    void (*write_stdin)(waldo_machine *machine, const char *job, waldo_str bytes, int eof,
                        const waldo_backend_call *call, waldo_backend_done_fn done);
    void (*signal_job)(waldo_machine *machine, const char *job, int signal,
                       const waldo_backend_call *call, waldo_backend_done_fn done);
    void (*pty)(waldo_machine *machine, const waldo_backend_exec *exec, uint32_t rows,
                uint32_t columns, const waldo_backend_call *call, waldo_backend_exec_fn done);
    void (*file_read)(waldo_machine *machine, const char *path, uint64_t offset, size_t max,
                      const waldo_backend_call *call, waldo_backend_bytes_fn done);
    void (*file_write)(waldo_machine *machine, const char *path, waldo_str bytes, uint32_t mode,
                       const waldo_backend_call *call, waldo_backend_done_fn done);
    void (*file_stat)(waldo_machine *machine, const char *path, const waldo_backend_call *call,
                      waldo_backend_info_fn done);
    void (*file_list)(waldo_machine *machine, const char *path, const waldo_backend_call *call,
                      waldo_backend_info_fn done);
    void (*file_remove)(waldo_machine *machine, const char *path, int recursive,
                        const waldo_backend_call *call, waldo_backend_done_fn done);
    void (*file_mkdir)(waldo_machine *machine, const char *path, uint32_t mode,
                       const waldo_backend_call *call, waldo_backend_done_fn done);
    void (*file_rename)(waldo_machine *machine, const char *from, const char *to,
                        const waldo_backend_call *call, waldo_backend_done_fn done);
    /**
     * Only with nothing but background commands in progress. A stream that does not survive it is
     * closed (on_closed) before the completion, and made anew by channel after resume. On failure
     * the machine goes on.
     */
    void (*pause)(waldo_machine *machine, const waldo_backend_call *call,
                  waldo_backend_done_fn done);
    /** Of one that runs already: WALDO_OK. A failure is the machine's end. */
    void (*resume)(waldo_machine *machine, const waldo_backend_call *call,
                   waldo_backend_done_fn done);
    void (*snapshot)(waldo_machine *machine, const waldo_backend_call *call,
                     waldo_backend_bytes_fn done);
    void (*restore)(waldo_machine *machine, waldo_str snapshot, const waldo_backend_call *call,
                    waldo_backend_done_fn done);
    void (*extend)(waldo_machine *machine, int64_t lease_ms, const waldo_backend_call *call,
                   waldo_backend_done_fn done);
    /** UTF-8 text; port is 1 to 65535. */
    void (*port_url)(waldo_machine *machine, uint32_t port, const waldo_backend_call *call,
                     waldo_backend_bytes_fn done);
    /** hosts for WALDO_NET_HOSTS, else empty. On failure the network is as it was. */
    void (*set_net)(waldo_machine *machine, waldo_net net, const char *const *hosts,
                    const waldo_backend_call *call, waldo_backend_done_fn done);
    void (*run_code)(waldo_machine *machine, const char *language, waldo_str code,
                     const waldo_backend_call *call, waldo_output_fn on_output,
                     waldo_backend_exec_fn done);

    /* ---- since version 2 ---- */

    /**
     * Optional. An open machine: *ret_info comes filled with what the class says. With this op the
     * grade of isolation is the machine's, and what is above parse's promise ends it again.
     */
    void (*describe)(const waldo_machine *machine, waldo_machine_info *ret_info);
    /**
     * With ATTACH. Free it, but leave the machine as it is, for its lease. Its channel was closed
     * before; channel may be called again on one whose stream broke.
     */
    void (*detach)(waldo_machine *machine);
    /**
     * Optional. Could a machine of this spec be opened now? Makes none, fetches nothing, and costs
     * little; WALDO_ENOTFOUND when the backend works and has not what the spec's target names.
     * Without this op probe answers.
     */
    void (*check)(const waldo_backend_env *env, const waldo_backend_spec *spec,
                  const waldo_backend_call *call, waldo_backend_done_fn done);
    /**
     * Optional. The hand of a machine that was just opened ended before it said a word: make it
     * usable by exec1. Then describe is asked again; why is what the channel said.
     */
    void (*without_hand)(waldo_machine *machine, const char *why, const waldo_backend_call *call,
                         waldo_backend_done_fn done);
} waldo_backend_ops;

/**
 * Add a backend of the host's own, before the first spec that names it is made. Missing mandatory
 * members and capability bits without their op are refused.
 *
 * @param ops      borrowed, must outlive every use
 * @param ret_err  set on failure, free with waldo_error_free(); may be NULL
 * @retval WALDO_OK      added
 * @retval WALDO_EINVAL  says which member is missing or contradicts the bits
 * @retval WALDO_EEXISTS the name is taken
 * Thread: any, before the library is used from others. Since: 0.1.
 */
WALDO_API waldo_status waldo_backend_register(const waldo_backend_ops *ops, waldo_error **ret_err);

#ifdef __cplusplus
}
#endif

#endif

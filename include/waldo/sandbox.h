/**
 * @file
 * Sandboxes: a spec is a recipe, a sandbox is one machine made from it, opened at first use.
 *
 * Sandbox strings: BACKEND ":" [TARGET] { "," KEY "=" VALUE }, such as "local:" or
 * "local:,net=none,timeout=60". Whatever a string can say has a field here, nothing more.
 *
 * Operations are completed from dispatch. The one exception: without memory for the operation
 * itself its function is called with WALDO_ENOMEM, and no error object, before the call returns.
 */
#ifndef WALDO_SANDBOX_H
#define WALDO_SANDBOX_H

#include <waldo/cancel.h>
#include <waldo/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Immutable, atomic refcount. Remembers what is wrong with it. */
typedef struct waldo_sandbox_spec waldo_sandbox_spec;

/** One machine, or one that will be opened at first use. Belongs to one runtime. */
typedef struct waldo_sandbox waldo_sandbox;

/** How the host directory named by workspace appears inside. */
typedef int32_t waldo_workspace_mode;
enum {
    WALDO_WORKSPACE_COPY = 0, /* a copy; waldo_sandbox_changes() gives the difference */
    WALDO_WORKSPACE_RO,       /* the directory itself, read-only */
    WALDO_WORKSPACE_RW /* the directory; .git/hooks, .git/config and rc files stay read-only */
};

/** Grades of separation between a command and the host, weakest first. */
typedef int32_t waldo_isolation;
enum {
    WALDO_ISOLATION_ANY = 0,
    WALDO_ISOLATION_NONE,
    WALDO_ISOLATION_PROCESS,
    WALDO_ISOLATION_CONTAINER,
    WALDO_ISOLATION_GVISOR,
    WALDO_ISOLATION_VM,
    WALDO_ISOLATION_REMOTE
};

/** What the sandbox may reach. */
typedef int32_t waldo_net;
enum {
    WALDO_NET_DEFAULT = 0, /* none */
    WALDO_NET_NONE,
    WALDO_NET_PACKAGES,
    WALDO_NET_HOSTS,
    WALDO_NET_ALL
};

/** When the workspace of a machine is kept on the host, in case it is lost. */
typedef int32_t waldo_snapshots;
enum {
    WALDO_SNAPSHOTS_DEFAULT = 0, /* with several backends WALDO_SNAPSHOTS_TURN, else never */
    WALDO_SNAPSHOTS_NEVER,
    WALDO_SNAPSHOTS_TURN /* after each round of an agent's tool calls that may have changed it */
};

/** A NULL-terminated list of strings made in place. */
#define WALDO_STRINGS(...) ((const char *const[]){ __VA_ARGS__, NULL })

/** Zero means "default" for every member. */
typedef struct waldo_sandbox_spec_options {
    uint32_t size; /* sizeof(waldo_sandbox_spec_options) */
    waldo_workspace_mode workspace_mode;
    /*
     * Sandbox strings in order of preference; copied. One that is not to be had, and one whose
     * machine is lost, is followed by the next: waldo_sandbox_generation().
     */
    const char *const *backends;
    const char *workspace;    /* host directory; copied; NULL: an empty one */
    const char *const *env;   /* "NAME=value" for every command; copied */
    const char *const *hosts; /* reachable hosts for WALDO_NET_HOSTS; copied */
    waldo_net net;
    waldo_isolation min_isolation;
    uint64_t memory_bytes;        /* 0: the backend's default */
    double cpus;                  /* 0: the backend's default */
    uint32_t max_processes;       /* 0: the backend's default */
    uint32_t flags;               /* none yet */
    int64_t command_timeout_ms;   /* for commands that name none; 0: 120 s */
    int64_t idle_ms;              /* close after so long without use; 0: never */
    uint64_t workspace_max_bytes; /* refuse to copy more; 0: 1 GiB */
    /*
     * So long the machine waits for a host to come back when none is connected any more, then it
     * ends; background commands go on meanwhile. 0: it ends with this process (a named one: after
     * a day). At most 49 days.
     */
    int64_t lease_ms;
    const char *name; /* get or create the machine of this name, and keep it; copied */
    /*
     * So many machines of this recipe are opened ahead once one of it is open, for the sandboxes
     * that come next: those only copy their workspace. At most 16; not for machines that are kept.
     */
    uint32_t spares;
    /*
     * A newer snapshot replaces the older; one of more than workspace_max_bytes is not kept. They
     * are of copied workspaces only, held in memory, and none is taken of the last backend's
     * machine, behind which there is no other.
     */
    waldo_snapshots snapshots;
    /*
     * Use the machine of this id (or name, as the backend knows it), which was made elsewhere: it
     * is never made, and when the sandbox closes it goes on as before, without what was brought
     * in. It is as it was made: limits, net, name, spares, workspace, and an image in the string,
     * are refused by name; its workspace is /workspace there. With lease_ms what runs in the
     * background waits so long for a host to come back; without it, some seconds. Copied.
     */
    const char *attach;
} waldo_sandbox_spec_options;

#define WALDO_SANDBOX_SPEC(...)                                                                    \
    ((waldo_sandbox_spec_options){ .size = sizeof(waldo_sandbox_spec_options), __VA_ARGS__ })

/**
 * Make a recipe. It remembers what is wrong with it; an unknown kind or option lists the known
 * ones.
 *
 * @param options  copied
 * @return one reference, release with waldo_sandbox_spec_unref(); NULL when out of memory
 * Thread: any. Since: 0.1.
 */
WALDO_API waldo_sandbox_spec *waldo_sandbox_spec_new(const waldo_sandbox_spec_options *options);

/**
 * @param spec  gets one more reference; NULL is accepted
 * @return spec
 * Thread: any. Since: 0.1.
 */
WALDO_API waldo_sandbox_spec *waldo_sandbox_spec_ref(waldo_sandbox_spec *spec);

/**
 * @param spec  loses one reference; NULL is a no-op
 * Thread: any. Since: 0.1.
 */
WALDO_API void waldo_sandbox_spec_unref(waldo_sandbox_spec *spec);

/**
 * @param spec  borrowed for the call
 * @return what is wrong with it, borrowed until the spec is freed; NULL when nothing is
 * Thread: any. Since: 0.1.
 */
WALDO_API const waldo_error *waldo_sandbox_spec_error(const waldo_sandbox_spec *spec);

/**
 * Make a sandbox; nothing is started until its first use.
 *
 * @param rt    must outlive the sandbox
 * @param spec  gets a reference
 * @return one reference, release with waldo_sandbox_unref(); NULL when out of memory. A bad spec is
 *         remembered: every operation fails with its error
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_sandbox *waldo_sandbox_new(waldo_runtime *rt, waldo_sandbox_spec *spec);

/**
 * Make a sandbox that reaches a saved machine (waldo_sandbox_save()) instead of making one; at its
 * first use. Its background commands are known once it is open, those that ended meanwhile, too;
 * what else ran in it ended with the host that started it. The workspace is as it was left, nothing
 * is copied again.
 *
 * It may fail to open, for good: WALDO_ENOTFOUND when the machine is gone, as after its lease,
 * WALDO_ELOST when it has ended, WALDO_EACCESS for one that is not ours.
 *
 * @param rt       must outlive the sandbox
 * @param spec     gets a reference; one of its sandbox strings is of the machine's backend
 * @param saved    from waldo_sandbox_save(), of any process; copied
 * @param ret_err  set on failure, free with waldo_error_free(); may be NULL
 * @return one reference, release with waldo_sandbox_unref(); NULL with ret_err: WALDO_EINVAL for
 *         bytes that are no saved state or of a backend the spec does not name, WALDO_ENOTSUP for a
 *         newer version's, WALDO_ENOMEM
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_sandbox *waldo_sandbox_open_saved(waldo_runtime *rt, waldo_sandbox_spec *spec,
                                                  waldo_str saved, waldo_error **ret_err);

/**
 * @param sandbox  gets one more reference; NULL is accepted
 * @return sandbox
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_sandbox *waldo_sandbox_ref(waldo_sandbox *sandbox);

/**
 * @param sandbox  loses one reference; NULL is a no-op. With the last one the machine is ended by
 *                 the runtime; one that has a name is let go, as by waldo_sandbox_detach()
 * Thread: driving. Since: 0.1.
 */
WALDO_API void waldo_sandbox_unref(waldo_sandbox *sandbox);

/** Called exactly once, from dispatch; error is borrowed for the call, NULL on success. */
typedef void (*waldo_sandbox_fn)(void *userdata, waldo_status status, const waldo_error *error);

/**
 * Open now what would be opened at first use.
 *
 * @param sandbox   exclusive
 * @param done      called exactly once, from dispatch; may be NULL
 * @param userdata  given to done
 * Thread: driving. Since: 0.1.
 */
WALDO_API void waldo_sandbox_open(waldo_sandbox *sandbox, waldo_sandbox_fn done, void *userdata);

/** What waldo_sandbox_save() gives; borrowed for the call. Holds no secrets. */
typedef void (*waldo_saved_fn)(void *userdata, waldo_status status, waldo_str saved,
                               const waldo_error *error);

/**
 * Get the bytes by which another process reaches this machine again, opening it first if need be.
 * They stay good as long as the machine lives; they are text without line breaks, and whoever has
 * them and may use the backend may use the machine.
 *
 * @param sandbox   exclusive
 * @param done      called exactly once, from dispatch; WALDO_ENOTSUP for a machine without a lease
 *                  and other failures of the sandbox
 * @param userdata  given to done
 * Thread: driving. Since: 0.1.
 */
WALDO_API void waldo_sandbox_save(waldo_sandbox *sandbox, waldo_saved_fn done, void *userdata);

/**
 * Let the machine go without ending it: its lease begins. Background commands go on in it, others
 * end as cancelled; what waits for output gets WALDO_ECLOSED.
 *
 * @param sandbox   exclusive; later operations fail with WALDO_ECLOSED
 * @param done      called exactly once, from dispatch; WALDO_ENOTSUP for a machine without a lease,
 *                  which is left as it was; may be NULL
 * @param userdata  given to done
 * Thread: driving. Since: 0.1.
 */
WALDO_API void waldo_sandbox_detach(waldo_sandbox *sandbox, waldo_sandbox_fn done, void *userdata);

/**
 * End the machine and everything that runs in it. Running commands end as cancelled. A machine that
 * has a name is let go instead, as by waldo_sandbox_detach().
 *
 * @param sandbox   exclusive; later operations fail with WALDO_ECLOSED
 * @param done      called exactly once, from dispatch, when the machine is gone; may be NULL.
 *                  WALDO_ENOMEM: it is being ended, and nobody tells when it is gone
 * @param userdata  given to done
 * Thread: driving. Since: 0.1.
 */
WALDO_API void waldo_sandbox_close(waldo_sandbox *sandbox, waldo_sandbox_fn done, void *userdata);

/**
 * @param sandbox  borrowed for the call
 * @return the backend in use or first in line, such as "local", borrowed until the sandbox is freed
 * Thread: driving. Since: 0.1.
 */
WALDO_API const char *waldo_sandbox_backend(const waldo_sandbox *sandbox);

/**
 * @param sandbox  borrowed for the call
 * @return its isolation grade; WALDO_ISOLATION_ANY before it was opened
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_isolation waldo_sandbox_isolation(const waldo_sandbox *sandbox);

/**
 * Which machine it is. When an open one is lost and the spec has a further backend, that is opened
 * in its place and this number is raised: what ran ends as lost (WALDO_EXEC_LOST), background
 * commands too; what waits goes on in the new machine. A copied workspace is there again as of the
 * newest snapshot, without one as it was copied at first; nothing else is. A machine that is
 * reached by its name has the workspace that it has. After the last backend the sandbox is lost:
 * everything fails with WALDO_ELOST.
 *
 * @param sandbox  borrowed for the call
 * @return 1 for the first machine, also before it was opened
 * Thread: driving. Since: 0.1.
 */
WALDO_API uint32_t waldo_sandbox_generation(const waldo_sandbox *sandbox);

/** Why a command ended. */
typedef int32_t waldo_exec_end;
enum {
    WALDO_EXEC_EXITED = 1,
    WALDO_EXEC_SIGNALED,
    WALDO_EXEC_TIMED_OUT,
    WALDO_EXEC_CANCELLED,
    WALDO_EXEC_OOM, /* killed for want of memory; only where the sandbox shows that */
    WALDO_EXEC_LOST
};

/** One collected stream: its head and tail as they came, and what lies between, counted. */
typedef struct waldo_output {
    waldo_str bytes;  /* head and tail joined; any bytes */
    size_t gap_at;    /* offset of the gap within bytes; bytes.len when nothing is missing */
    uint64_t omitted; /* bytes missing at the gap */
    uint64_t total;   /* bytes the command wrote: bytes.len + omitted */
} waldo_output;

/** What became of a command. Borrowed for the completion. */
typedef struct waldo_exec_result {
    uint32_t size;
    waldo_exec_end end;
    int32_t exit_code;  /* valid for WALDO_EXEC_EXITED */
    int32_t signal;     /* for WALDO_EXEC_SIGNALED, and when a timeout or cancel ended it */
    int32_t still_open; /* 1: something left behind holds its output open */
    int32_t reserved;
    int64_t timeout_ms; /* the limit that was in force */
    int64_t wall_ns;
    int64_t cpu_ns;           /* user and system time, where known */
    waldo_output out;         /* standard output */
    waldo_output err;         /* standard error */
    waldo_output both;        /* the two in the order they were read, characters kept whole */
    const char *capture_path; /* file in the sandbox with the whole output; NULL: none was needed */
    uint64_t capture_bytes;   /* bytes in it */
    uint64_t capture_lost;    /* bytes that did not fit */
} waldo_exec_result;

/** Live output, in the order it was read; stream is 1 or 2. Borrowed for the call. */
typedef void (*waldo_output_fn)(void *userdata, int stream, waldo_str bytes);

/**
 * The command is over, or could not be run.
 *
 * @param userdata  as given
 * @param status    WALDO_OK whatever the exit code is; WALDO_ESTART when the program could not be
 *                  started; other failures of the sandbox
 * @param result    borrowed for the call; NULL unless status is WALDO_OK
 * @param error     borrowed for the call; NULL when status is WALDO_OK
 */
typedef void (*waldo_exec_fn)(void *userdata, waldo_status status, const waldo_exec_result *result,
                              const waldo_error *error);

/** Zero means "default" for every member. */
typedef struct waldo_exec_options {
    uint32_t size;             /* sizeof(waldo_exec_options) */
    uint32_t flags;            /* WALDO_EXEC_* below */
    const char *cmd;           /* shell text, run by /bin/sh -c; or argv */
    const char *const *argv;   /* NULL-terminated */
    const char *shell;         /* program instead of /bin/sh */
    const char *cwd;           /* absolute, or relative to the workspace */
    const char *const *env;    /* "NAME=value" on top of the sandbox's, NULL-terminated */
    waldo_str input;           /* standard input; empty: /dev/null */
    int64_t timeout_ms;        /* 0: the sandbox's; WALDO_FOREVER: none */
    int64_t grace_ms;          /* between TERM and KILL; 0: 2 s */
    size_t max_output;         /* head and tail kept of each stream; 0: 1 MiB */
    uint64_t max_capture;      /* bytes of a capture file in the sandbox; 0: none */
    waldo_output_fn on_output; /* live output; may be NULL */
    waldo_cancel *cancel;      /* gets a reference; may be NULL */
    uint32_t rows;             /* WALDO_EXEC_TTY: size of the terminal, at most 65535; 0: 24 */
    uint32_t columns;          /* 0: 80 */
} waldo_exec_options;

enum {
    WALDO_EXEC_MERGE = 1u << 0,      /* one stream: standard error goes to standard output */
    WALDO_EXEC_KEEP_STDIN = 1u << 1, /* standard input stays open after input: waldo_job_write() */
    WALDO_EXEC_ALL_OUTPUT = 1u << 2, /* every byte to on_output, slowing the command if needed */
    WALDO_EXEC_LOGIN = 1u << 3,      /* login shell: -lc */
    /*
     * Input, output and errors are one terminal that echoes and turns Ctrl-C (byte 3) into SIGINT;
     * TERM is "dumb" unless env says more. All output comes as standard output. Input that ends
     * is followed by Ctrl-D. WALDO_ENOTSUP where the sandbox has no terminals.
     */
    WALDO_EXEC_TTY = 1u << 4
};

#define WALDO_EXEC(...) ((waldo_exec_options){ .size = sizeof(waldo_exec_options), __VA_ARGS__ })

/** A running command. Valid until its completion was called. */
typedef struct waldo_job waldo_job;

/**
 * Run a command in the sandbox, opening it first if need be.
 *
 * @param sandbox   exclusive
 * @param options   copied
 * @param done      called exactly once, from dispatch
 * @param userdata  given to done and on_output
 * @param ret_job   set on success, borrowed until done returns; may be NULL
 * @param ret_err   set on failure, free with waldo_error_free(); may be NULL
 * @retval WALDO_OK      accepted; done will be called
 * @retval WALDO_EINVAL  neither or both of cmd and argv, or a bad option; done is not called
 * @retval WALDO_ECLOSED sandbox is closed; done is not called
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_status waldo_sandbox_exec(waldo_sandbox *sandbox, const waldo_exec_options *options,
                                          waldo_exec_fn done, void *userdata, waldo_job **ret_job,
                                          waldo_error **ret_err);

/**
 * Run a command and drive the loop until it is over. A wrapper of waldo_sandbox_exec().
 *
 * @param sandbox     exclusive
 * @param options     copied; on_output is called with userdata NULL
 * @param ret_result  set on success; free with waldo_exec_result_free()
 * @param ret_err     set on failure, free with waldo_error_free(); may be NULL
 * @return the completion's status, or the refusal of waldo_sandbox_exec(), or WALDO_EREENTRANT
 * Thread: driving, not from callbacks. Since: 0.1.
 */
WALDO_API waldo_status waldo_sandbox_exec_wait(waldo_sandbox *sandbox,
                                               const waldo_exec_options *options,
                                               waldo_exec_result **ret_result,
                                               waldo_error **ret_err);

/**
 * @param result  taken; from waldo_sandbox_exec_wait(); NULL is a no-op
 * Thread: any. Since: 0.1.
 */
WALDO_API void waldo_exec_result_free(waldo_exec_result *result);

/**
 * Write to a command's standard input (WALDO_EXEC_KEEP_STDIN).
 *
 * @param job    exclusive
 * @param bytes  copied
 * @param eof    1: close standard input after them
 * @retval WALDO_OK      queued
 * @retval WALDO_ECLOSED standard input is closed
 * @retval WALDO_EBUSY   more than 4 MiB wait already: try again when output or time has passed
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_status waldo_job_write(waldo_job *job, waldo_str bytes, int eof);

/**
 * Send a signal to a command's process group.
 *
 * @param job     exclusive
 * @param signal  number as on Linux
 * @retval WALDO_OK     sent to the sandbox
 * @retval WALDO_EINVAL not a signal
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_status waldo_job_signal(waldo_job *job, int signal);

/**
 * Change the size of a command's terminal (WALDO_EXEC_TTY); what runs there gets SIGWINCH.
 *
 * @param job      exclusive
 * @param rows     1 to 65535
 * @param columns  1 to 65535
 * @retval WALDO_OK      sent to the sandbox, or the command is over already
 * @retval WALDO_EINVAL  out of range, or the command has no terminal
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_status waldo_job_resize(waldo_job *job, uint32_t rows, uint32_t columns);

/**
 * End a command and its whole tree: TERM, grace, KILL. Its completion still comes, as
 * WALDO_EXEC_CANCELLED.
 *
 * @param job  exclusive
 * Thread: driving. Since: 0.1.
 */
WALDO_API void waldo_job_cancel(waldo_job *job);

/** Bytes of a file; borrowed for the call. */
typedef void (*waldo_read_fn)(void *userdata, waldo_status status, waldo_str bytes,
                              uint64_t file_size, const waldo_error *error);

/**
 * Read a range of a file in the sandbox.
 *
 * @param sandbox   exclusive
 * @param path      absolute, or relative to the workspace; copied
 * @param offset    first byte
 * @param max       longest range, at most 64 MiB
 * @param done      called exactly once, from dispatch; WALDO_ENOTFOUND, WALDO_EACCESS,
 *                  WALDO_EPATH (a folder, or a way out of the workspace) as expected failures
 * @param userdata  given to done
 * Thread: driving. Since: 0.1.
 */
WALDO_API void waldo_sandbox_read(waldo_sandbox *sandbox, const char *path, uint64_t offset,
                                  size_t max, waldo_read_fn done, void *userdata);

/**
 * Write a file in the sandbox: a temporary file first, then a rename; missing folders are made.
 *
 * @param sandbox   exclusive
 * @param path      absolute, or relative to the workspace; copied
 * @param bytes     copied
 * @param mode      permission bits; 0: those of the file it replaces, else 0644
 * @param done      called exactly once, from dispatch; WALDO_ENOSPACE, WALDO_EACCESS, WALDO_EPATH
 *                  as expected failures; may be NULL
 * @param userdata  given to done
 * Thread: driving. Since: 0.1.
 */
WALDO_API void waldo_sandbox_write(waldo_sandbox *sandbox, const char *path, waldo_str bytes,
                                   uint32_t mode, waldo_sandbox_fn done, void *userdata);

/** A patch; borrowed for the call. Empty when nothing changed. */
typedef void (*waldo_changes_fn)(void *userdata, waldo_status status, waldo_str patch,
                                 const waldo_error *error);

/**
 * What the sandbox changed in the copied workspace, as a patch that git apply accepts.
 *
 * @param sandbox   exclusive; its workspace mode is WALDO_WORKSPACE_COPY
 * @param done      called exactly once, from dispatch; WALDO_ENOTSUP for the other modes
 * @param userdata  given to done
 * Thread: driving. Since: 0.1.
 */
WALDO_API void waldo_sandbox_changes(waldo_sandbox *sandbox, waldo_changes_fn done, void *userdata);

/** A tar archive; borrowed for the call. */
typedef void (*waldo_archive_fn)(void *userdata, waldo_status status, waldo_str archive,
                                 const waldo_error *error);

/**
 * Get the workspace as a tar archive: files, folders (empty ones, too) and symbolic links with
 * their modes and, to the second, their times. What is none of these (sockets, pipes, devices) is
 * left out, and counted in the log; a file that cannot be read fails it by name. A hard link
 * becomes a file of its own. Nothing is stopped meanwhile: files that change are as they were when
 * read.
 *
 * @param sandbox   exclusive; opened if need be
 * @param done      called exactly once, from dispatch; WALDO_ETOOBIG (more than the spec's
 *                  workspace_max_bytes; the message names the file), WALDO_EACCESS as expected
 *                  failures
 * @param userdata  given to done
 * Thread: driving. Since: 0.1.
 */
WALDO_API void waldo_sandbox_snapshot(waldo_sandbox *sandbox, waldo_archive_fn done,
                                      void *userdata);

/**
 * Make the workspace what an archive holds: everything else in it is removed. The archive may be of
 * waldo_sandbox_snapshot(), of any sandbox, or of another program. It is not trusted, and read
 * to its end before anything is changed: a name outside of the workspace, what lies below a link or
 * file, a device, and bytes that are no archive are refused. A link may point anywhere, as it may
 * in the sandbox anyway; nothing is written through it. Links and times need a shell with ln and
 * touch in the sandbox: without them links fail, and times are lost, which the log tells.
 *
 * @param sandbox   exclusive; its workspace mode is WALDO_WORKSPACE_COPY. Opened if need be
 * @param archive   copied
 * @param done      called exactly once, from dispatch; may be NULL. WALDO_EPATH, WALDO_EPROTO and
 *                  WALDO_ETRUNCATED (the archive), WALDO_ETOOBIG (workspace_max_bytes),
 *                  WALDO_ENOTSUP (mode ro or rw, sparse files) change nothing; another failure may
 *                  leave a part
 * @param userdata  given to done
 * Thread: driving. Since: 0.1.
 */
WALDO_API void waldo_sandbox_restore(waldo_sandbox *sandbox, waldo_str archive,
                                     waldo_sandbox_fn done, void *userdata);

/**
 * Get a folder of the sandbox as a tar archive, as waldo_sandbox_snapshot() does the workspace.
 * Names in it are relative to the folder. Of a file or link it is the only entry.
 *
 * @param sandbox   exclusive; opened if need be
 * @param path      absolute, or relative to the workspace; copied; NULL: the workspace
 * @param done      called exactly once, from dispatch; failures as of waldo_sandbox_snapshot(), and
 *                  WALDO_ENOTFOUND
 * @param userdata  given to done
 * Thread: driving. Since: 0.1.
 */
WALDO_API void waldo_sandbox_pack(waldo_sandbox *sandbox, const char *path, waldo_archive_fn done,
                                  void *userdata);

/**
 * Put what an archive holds into a folder of the sandbox, over what is there; as
 * waldo_sandbox_restore(), but nothing is removed that the archive does not replace.
 *
 * @param sandbox   exclusive; opened if need be
 * @param path      of the folder, which is made when it is missing; absolute, or relative to the
 *                  workspace; copied; NULL: the workspace
 * @param archive   copied
 * @param done      called exactly once, from dispatch; failures as of waldo_sandbox_restore(); may
 *                  be NULL
 * @param userdata  given to done
 * Thread: driving. Since: 0.1.
 */
WALDO_API void waldo_sandbox_unpack(waldo_sandbox *sandbox, const char *path, waldo_str archive,
                                    waldo_sandbox_fn done, void *userdata);

/**
 * Find out whether a sandbox of a recipe could be opened here, without making one: is the program
 * or the engine there, and what the string names, such as an image. Nothing is fetched.
 *
 * @param rt        exclusive
 * @param spec      gets a reference
 * @param done      called exactly once, from dispatch; WALDO_OK when one of its backends would
 *                  serve, else the last one's refusal, WALDO_ENOTFOUND when that backend works but
 *                  has not what the string names
 * @param userdata  given to done
 * Thread: driving. Since: 0.1.
 */
WALDO_API void waldo_sandbox_check(waldo_runtime *rt, waldo_sandbox_spec *spec,
                                   waldo_sandbox_fn done, void *userdata);

/**
 * Copy a file or folder of the host into the sandbox, with modes and times. A folder's content goes
 * into the folder at path, over what is there. Links are copied as links. The host's files are read
 * during the call.
 *
 * @param sandbox    exclusive; opened if need be
 * @param host_path  file or folder; a link to one is followed
 * @param path       what it is to be, absolute, or relative to the workspace; copied
 * @param done       called exactly once, from dispatch; may be NULL. WALDO_ENOTFOUND,
 *                   WALDO_EACCESS, WALDO_ETOOBIG (workspace_max_bytes) as expected failures
 * @param userdata   given to done
 * Thread: driving. Since: 0.1.
 */
WALDO_API void waldo_sandbox_upload(waldo_sandbox *sandbox, const char *host_path, const char *path,
                                    waldo_sandbox_fn done, void *userdata);

/**
 * Copy a file or folder of the sandbox to the host, with modes and times; a folder's content goes
 * into host_path, over what is there. The sandbox is not trusted: nothing is written through a
 * link, and one that would lead out of host_path is refused before anything is made. The host's
 * files are written before done is called.
 *
 * @param sandbox    exclusive; opened if need be
 * @param path       file or folder, absolute, or relative to the workspace; copied
 * @param host_path  what it is to be on the host; copied
 * @param done       called exactly once, from dispatch; may be NULL. WALDO_ENOTFOUND,
 *                   WALDO_EACCESS, WALDO_EPATH (such a link), WALDO_ETOOBIG (workspace_max_bytes)
 *                   as expected failures
 * @param userdata   given to done
 * Thread: driving. Since: 0.1.
 */
WALDO_API void waldo_sandbox_download(waldo_sandbox *sandbox, const char *path,
                                      const char *host_path, waldo_sandbox_fn done, void *userdata);

/** One way to run sandboxes, as waldo_backend_probe() reports it. */
typedef struct waldo_backend_report {
    uint32_t size;
    int32_t usable; /* 1: sandboxes can be opened here */
    waldo_isolation isolation;
    int32_t reserved;
    const char *name;   /* static */
    const char *about;  /* static: one line */
    const char *reason; /* why not, and what to do; borrowed for the call; "" when usable */
} waldo_backend_report;

typedef void (*waldo_backend_report_fn)(void *userdata, const waldo_backend_report *report);

/**
 * Find out which backends work here.
 *
 * @param rt        exclusive
 * @param each      called once for each backend of this build, from dispatch
 * @param done      called exactly once after the last; may be NULL
 * @param userdata  given to both
 * Thread: driving. Since: 0.1.
 */
WALDO_API void waldo_backend_probe(waldo_runtime *rt, waldo_backend_report_fn each,
                                   waldo_sandbox_fn done, void *userdata);

#ifdef __cplusplus
}
#endif

#endif

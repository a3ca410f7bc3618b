/**
 * @file
 * For tests of programs that embed waldo: a model and a sandbox that follow a script. A library of
 * its own: pkg-config waldo_testing, or -lwaldo_testing.
 */
#ifndef WALDO_TESTING_H
#define WALDO_TESTING_H

#include <waldo/model.h>
#include <waldo/sandbox.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A part of what a scripted model answers. Zero means "not" for every member. */
typedef struct waldo_testing_turn {
    const char *expect;    /* text that the request's JSON (docs/models.md) must hold */
    const char *reasoning; /* thought */
    const char *text;      /* said */
    const char *call;      /* tool asked for */
    const char *args;      /* its arguments, JSON; NULL: {} */
    waldo_status fail;     /* the request fails with this */
    int32_t more;          /* 1: the next turn belongs to the same answer */
} waldo_testing_turn;

/**
 * A model that gives answers in order, whatever it is asked, and fails with WALDO_EINVAL where a
 * request does not hold what it is expected to, or nothing is left.
 *
 * @param turns  borrowed for the model's life, as all text in them
 * @param count  of them
 * @return one reference, release with waldo_model_unref(); NULL when out of memory
 * Thread: any; used by one runtime at a time. Since: 0.1.
 */
WALDO_API waldo_model *waldo_testing_model(const waldo_testing_turn *turns, size_t count);

/** waldo_testing_model() of an array. */
#define WALDO_TESTING_MODEL(turns) waldo_testing_model((turns), sizeof(turns) / sizeof((turns)[0]))

/** A file or folder of a scripted sandbox, and what fails with it. Zero means "not". */
typedef struct waldo_testing_file {
    const char *path;        /* absolute, or relative to /workspace; a folder ends with "/" */
    const char *bytes;       /* content of a file; NULL: there is none, this only says what fails */
    size_t len;              /* of bytes; 0: up to its NUL byte */
    uint32_t mode;           /* permission bits; 0: 0644 or what it has, a folder's 0755 */
    waldo_status fail_read;  /* reading, looking at and listing path fails with this */
    waldo_status fail_write; /* writing, removing and renaming it, or to it, does */
    int32_t reserved;
} waldo_testing_file;

/** Of waldo_testing_command.times. */
enum {
    WALDO_TESTING_ALWAYS = -1 /* any number of times, also none, whatever the order */
};

/** A command that a script expects, and what comes of it. Zero means "not" for every member. */
typedef struct waldo_testing_command {
    /*
     * As the model or the host writes it. A "*" stands for any text, also none, and "\*" (in C
     * "\\*") for a star; NULL: any command. One that was given as an argv is compared as a shell
     * would be told it: with blanks between, and in single quotes what needs them.
     */
    const char *cmd;
    const char *cwd;    /* it must run in this folder, absolute, or relative to /workspace */
    const char *output; /* standard output; comes as soon as the command begins */
    const char *errors; /* standard error, behind that */
    size_t output_len;  /* of output; 0: up to its NUL byte */
    size_t errors_len;
    const waldo_testing_file *files; /* what it leaves behind when it ends by itself */
    size_t file_count;
    int64_t delay_ms; /* it runs for so many milliseconds, on the runtime's loop: nothing waits.
                           WALDO_FOREVER: until its time is over or somebody cancels it */
    int32_t exit_code;
    int32_t signal;     /* above 0: this signal ends it */
    waldo_exec_end end; /* another end: WALDO_EXEC_TIMED_OUT, _CANCELLED, _OOM or _LOST */
    /*
     * It fails in place of an end: WALDO_ESTART (there is no such program), WALDO_EIO, ...; with
     * WALDO_ELOST the machine is lost, and everything that runs in it.
     */
    waldo_status fail;
    int32_t times; /* it is expected so often; 0: once; WALDO_TESTING_ALWAYS */
    int32_t reserved;
} waldo_testing_command;

/** Of waldo_testing_sandbox_options.flags. */
enum {
    WALDO_TESTING_ANY_ORDER =
        1u << 0 /* commands may come in any order; the first that fits counts */
};

/** Zero means "default" for every member. Arrays are borrowed, with all they point to. */
typedef struct waldo_testing_sandbox_options {
    uint32_t size;    /* sizeof(waldo_testing_sandbox_options) */
    uint32_t flags;   /* WALDO_TESTING_* */
    const char *name; /* copied; its sandbox string is "scripted:NAME"; NULL: "scripted:" */
    const waldo_testing_command *commands; /* in order, if flags do not say otherwise */
    size_t command_count;
    const waldo_testing_file *files; /* there from the beginning */
    size_t file_count;
    int64_t open_ms;           /* opening takes so many milliseconds */
    waldo_status fail_open;    /* opening fails with this, such as WALDO_EUNAVAILABLE, */
    uint32_t fail_open_times;  /* so often, and then no more; 0: always */
    waldo_isolation isolation; /* what it says of itself; default WALDO_ISOLATION_REMOTE */
    int32_t reserved;
} waldo_testing_sandbox_options;

#define WALDO_TESTING_SANDBOX(...)                                                                 \
    ((waldo_testing_sandbox_options){ .size = sizeof(waldo_testing_sandbox_options), __VA_ARGS__ })

/** The members for an array of waldo_testing_command, and for one of waldo_testing_file. */
#define WALDO_TESTING_COMMANDS(array)                                                              \
    .commands = (array), .command_count = sizeof(array) / sizeof((array)[0])
#define WALDO_TESTING_FILES(array)                                                                 \
    .files = (array), .file_count = sizeof(array) / sizeof((array)[0])

/** A machine in memory that follows a script; see docs/testing-agents.md. */
typedef struct waldo_testing_sandbox waldo_testing_sandbox;

/**
 * Make the machine that "scripted:NAME" stands for, in sandbox strings of this process. It runs
 * nothing and starts nothing: commands come to what the script says, files live in memory. All
 * that is opened by that string is this one machine: opened again it is as it was left.
 *
 * A command that the script does not expect, then or there, fails with WALDO_EINVAL and names
 * itself and what was expected. So does everything that is asked of the machine afterwards, and
 * waldo_testing_sandbox_check() says it again. What the tool grep runs is carried out on the files
 * unless a command of the script fits, and what sets times of files is accepted.
 *
 * @param options  copied, but for the arrays, which are borrowed until the sandbox is freed; NULL
 *                 means all defaults
 * @param ret_err  set on failure, free with waldo_error_free(); may be NULL
 * @return free with waldo_testing_sandbox_free(); NULL with ret_err: WALDO_EINVAL for options that
 *         make no sense, WALDO_EEXISTS for a name that another one has, WALDO_ENOMEM
 * Thread: any, one at a time; the first one of a process before the library is used from other
 * threads, and before a spec or an agent that names it is made. Used by one runtime at a time.
 * Since: 0.1.
 */
WALDO_API waldo_testing_sandbox *waldo_testing_sandbox_new(
    const waldo_testing_sandbox_options *options, waldo_error **ret_err);

/**
 * @param sandbox  taken; NULL is a no-op. A machine of it that is still open is lost: finish the
 *                 runtime before
 * Thread: that of its runtime. Since: 0.1.
 */
WALDO_API void waldo_testing_sandbox_free(waldo_testing_sandbox *sandbox);

/**
 * Did everything come that the script expects, and nothing else? The last line of a test.
 *
 * @param sandbox  borrowed for the call
 * @param ret_err  set on failure, free with waldo_error_free(); may be NULL
 * @retval WALDO_OK     it did
 * @retval WALDO_EINVAL says which command came in place of which, or which did not come
 * Thread: that of its runtime. Since: 0.1.
 */
WALDO_API waldo_status waldo_testing_sandbox_check(const waldo_testing_sandbox *sandbox,
                                                   waldo_error **ret_err);

/** What a scripted sandbox was asked for. */
typedef int32_t waldo_testing_kind;
enum {
    WALDO_TESTING_ANY = 0, /* one of these */
    WALDO_TESTING_EXEC,    /* a command */
    WALDO_TESTING_WRITE,   /* a file to be written: by a tool, the API, or a copied workspace */
    WALDO_TESTING_REMOVE,  /* a file or folder to be removed */
    WALDO_TESTING_MKDIR,   /* a folder to be made */
    WALDO_TESTING_RENAME   /* a file or folder to be renamed */
};

/** One thing that was asked for, whatever came of it. */
typedef struct waldo_testing_asked {
    uint32_t size;
    waldo_testing_kind kind;
    const char *text; /* EXEC: the command, as a script has it; else the path, absolute */
    const char *to;   /* RENAME: the new path, absolute; else NULL */
    waldo_str bytes;  /* EXEC: standard input; WRITE: the content; else empty */
    /* The others are of EXEC. */
    const char *const *argv; /* as the machine got it, NULL-terminated: often a shell, "-c", text */
    const char *const *env;  /* "NAME=value", the sandbox's and the command's, NULL-terminated */
    const char *cwd;         /* absolute */
    int64_t timeout_ms;      /* the limit that was in force; WALDO_FOREVER: none */
    size_t command;          /* index of the script's that fits; SIZE_MAX: none does */
} waldo_testing_asked;

/**
 * Look at what was asked for, in order.
 *
 * @param sandbox  borrowed for the call
 * @param kind     only these are counted
 * @param index    from 0
 * @return borrowed until the sandbox is freed; NULL past the end
 * Thread: that of its runtime. Since: 0.1.
 */
WALDO_API const waldo_testing_asked *waldo_testing_sandbox_asked(
    const waldo_testing_sandbox *sandbox, waldo_testing_kind kind, size_t index);

/**
 * Look at a file, before, while or after the machine is used.
 *
 * @param sandbox    borrowed for the call
 * @param path       absolute, or relative to /workspace
 * @param ret_bytes  its content, borrowed until something is written or removed
 * @retval WALDO_OK        there it is
 * @retval WALDO_ENOTFOUND there is no such file
 * @retval WALDO_EPATH     it is a folder, or path is too long
 * Thread: that of its runtime. Since: 0.1.
 */
WALDO_API waldo_status waldo_testing_sandbox_file(const waldo_testing_sandbox *sandbox,
                                                  const char *path, waldo_str *ret_bytes);

/**
 * Make or replace a file or folder, as something else in the machine might at any time. It is not
 * among what was asked for.
 *
 * @param sandbox  exclusive
 * @param file     copied; fail_read and fail_write must be zero
 * @retval WALDO_OK       done
 * @retval WALDO_EINVAL   file says what fails, or has neither bytes nor a path of a folder
 * @retval WALDO_EEXISTS  a file is where a folder is to be
 * @retval WALDO_EPATH    a folder is in its place, a file in place of a folder above it, or path is
 *                        too long
 * @retval WALDO_ENOMEM   out of memory
 * Thread: that of its runtime. Since: 0.1.
 */
WALDO_API waldo_status waldo_testing_sandbox_put(waldo_testing_sandbox *sandbox,
                                                 const waldo_testing_file *file);

/**
 * Lose the machine now, and everything that runs in it. Opening it again, as a spec does that names
 * it twice, finds its files as they were.
 *
 * @param sandbox  exclusive; one that is not open stays as it is
 * Thread: that of its runtime, callbacks too. Since: 0.1.
 */
WALDO_API void waldo_testing_sandbox_lose(waldo_testing_sandbox *sandbox);

#ifdef __cplusplus
}
#endif

#endif

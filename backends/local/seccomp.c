/*
 * System calls that commands in the sandbox have no use for and that have let programs out of
 * sandboxes before. Everything else is allowed; namespaces do the rest.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "local.h"

enum { FILTER_MAX = 256 };

#define FCHMODAT2 452u /* of Linux 6.6, the same everywhere */

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "the local backend knows x86-64 and arm64 only"
#endif

#define NAMESPACES                                                                                 \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |  \
     CLONE_NEWNET)

static const uint32_t denied[] = {
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_kcmp,
    SYS_pidfd_getfd,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_move_mount,
    SYS_open_tree,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_mount_setattr,
    SYS_unshare,
    SYS_setns,
    SYS_kexec_load,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_quotactl,
    SYS_open_by_handle_at,
#ifdef SYS_kexec_file_load
    SYS_kexec_file_load,
#endif
#ifdef SYS_iopl
    SYS_iopl,
    SYS_ioperm,
#endif
};

typedef struct filter {
    struct sock_filter code[FILTER_MAX];
    size_t len;
} filter;

static void emit(filter *f, uint16_t code, uint32_t k, uint8_t jt, uint8_t jf)
{
    if (f->len < FILTER_MAX) {
        f->code[f->len++] = (struct sock_filter){ code, jt, jf, k };
    }
}

static void load(filter *f, size_t offset)
{
    emit(f, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static void load_number(filter *f)
{
    load(f, offsetof(struct seccomp_data, nr));
}

/* The low half of an argument: both architectures are little-endian. */
static void load_argument(filter *f, size_t number)
{
    load(f, offsetof(struct seccomp_data, args) + number * sizeof(uint64_t));
}

static void give(filter *f, uint32_t action)
{
    emit(f, BPF_RET | BPF_K, action, 0, 0);
}

/* When the value loaded is k: this action. */
static void give_if(filter *f, uint32_t k, uint32_t action)
{
    emit(f, BPF_JMP | BPF_JEQ | BPF_K, k, 0, 1);
    give(f, action);
}

static uint32_t refuse(int error)
{
    return SECCOMP_RET_ERRNO | ((uint32_t)error & SECCOMP_RET_DATA);
}

/* Begin what is done for one system call; finish() sets where others go on. */
static size_t begin(filter *f, uint32_t number)
{
    emit(f, BPF_JMP | BPF_JEQ | BPF_K, number, 0, 0);
    return f->len - 1;
}

static void finish(filter *f, size_t at, uint32_t action)
{
    give(f, action);
    f->code[at].jf = (uint8_t)(f->len - at - 1);
}

static void add_clone(filter *f)
{
    size_t at = begin(f, SYS_clone);

    load_argument(f, 0);
    emit(f, BPF_JMP | BPF_JSET | BPF_K, NAMESPACES, 0, 1);
    give(f, refuse(EPERM));
    finish(f, at, SECCOMP_RET_ALLOW);
}

/* Typing into a terminal that somebody else reads. */
static void add_ioctl(filter *f)
{
    size_t at = begin(f, SYS_ioctl);

    load_argument(f, 1);
    give_if(f, TIOCSTI, refuse(EPERM));
    give_if(f, TIOCLINUX, refuse(EPERM));
    finish(f, at, SECCOMP_RET_ALLOW);
}

/* Nobody sets the limits of another process: without descriptors the hand could do nothing. */
static void add_limits(filter *f)
{
    size_t at = begin(f, SYS_prlimit64);

    load_argument(f, 0);
    give_if(f, 0, SECCOMP_RET_ALLOW);
    finish(f, at, refuse(EPERM));
}

/*
 * Programs that run as their owner: what a sandbox leaves in a workspace of mode rw is executed
 * outside, where the mount's nosuid does not hold. openat2 is left to the hand alone.
 */
static void add_modes(filter *f)
{
    static const struct {
        uint32_t number;
        uint8_t mode;  /* which argument */
        uint8_t flags; /* which one says whether the mode counts; 0: it always does */
    } calls[] = {
#ifdef SYS_open
        { SYS_open, 2, 1 },    { SYS_creat, 1, 0 },  { SYS_chmod, 1, 0 },    { SYS_mknod, 1, 0 },
#endif
        { SYS_openat, 3, 2 },  { SYS_fchmod, 1, 0 }, { SYS_fchmodat, 2, 0 }, { FCHMODAT2, 2, 0 },
        { SYS_mknodat, 2, 0 },
    };

    for (size_t i = 0; i < WALDO__COUNT(calls); i++) {
        size_t at = begin(f, calls[i].number);

        if (calls[i].flags != 0) {
            load_argument(f, calls[i].flags);
            emit(f, BPF_JMP | BPF_JSET | BPF_K, O_CREAT | (O_TMPFILE & ~O_DIRECTORY), 1, 0);
            give(f, SECCOMP_RET_ALLOW);
        }
        load_argument(f, calls[i].mode);
        emit(f, BPF_JMP | BPF_JSET | BPF_K, S_ISUID, 0, 1);
        give(f, refuse(EPERM));
        finish(f, at, SECCOMP_RET_ALLOW);
    }
}

static void add_personality(filter *f)
{
    size_t at = begin(f, SYS_personality);

    load_argument(f, 0);
    give_if(f, 0, SECCOMP_RET_ALLOW);
    give_if(f, 0x0040000, SECCOMP_RET_ALLOW);   /* ADDR_NO_RANDOMIZE */
    give_if(f, 0xffffffffu, SECCOMP_RET_ALLOW); /* only asks */
    finish(f, at, refuse(EPERM));
}

/*
 * With the host's network its abstract unix sockets would be in reach: no AF_UNIX then. Of netlink
 * only the routing family, which getaddrinfo() and ip(8) want.
 */
static void add_socket(filter *f, int net)
{
    size_t at = begin(f, SYS_socket);

    load_argument(f, 0);
    if (!net) {
        give_if(f, AF_UNIX, SECCOMP_RET_ALLOW);
    }
    give_if(f, AF_INET, SECCOMP_RET_ALLOW);
    give_if(f, AF_INET6, SECCOMP_RET_ALLOW);
    emit(f, BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 1, 0);
    give(f, refuse(EAFNOSUPPORT));
    load_argument(f, 2);
    give_if(f, NETLINK_ROUTE, SECCOMP_RET_ALLOW);
    finish(f, at, refuse(EAFNOSUPPORT));
}

int waldo__local_seccomp_fd(int net)
{
    filter f = { .len = 0 };

    load(&f, offsetof(struct seccomp_data, arch));
    emit(&f, BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0);
    give(&f, SECCOMP_RET_KILL_PROCESS);
    load_number(&f);
#if defined(__x86_64__)
    emit(&f, BPF_JMP | BPF_JSET | BPF_K, 0x40000000u, 0, 1); /* the x32 set of numbers */
    give(&f, refuse(ENOSYS));
#endif
    for (size_t i = 0; i < WALDO__COUNT(denied); i++) {
        give_if(&f, denied[i], refuse(EPERM));
    }
    give_if(&f, SYS_clone3, refuse(ENOSYS)); /* its flags are in memory; libc goes on with clone */
    add_clone(&f);
    add_ioctl(&f);
    add_limits(&f);
    add_modes(&f);
    add_personality(&f);
    add_socket(&f, net);
    give(&f, SECCOMP_RET_ALLOW);
    return waldo__local_memfd("seccomp", f.code, f.len * sizeof f.code[0]);
}

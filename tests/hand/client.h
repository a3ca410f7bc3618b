/* The tests' side of a hand: the real program over a socket pair, its frames kept by id. */
#ifndef WALDO_TESTS_HAND_CLIENT_H
#define WALDO_TESTS_HAND_CLIENT_H

#include <sys/types.h>

#include "codec/hand.h"

#define CLIENT_IDS  700
#define CLIENT_JOBS 80

/* All that came for one id. */
struct record {
    int started, start_error, start_phase, exits, dones, after_end;
    uint32_t pid;
    waldo__hand_exit exit;
    waldo__hand_done done;
    waldo__buf streams[2];
    uint64_t gap[2]; /* bytes missing between frames, by their offsets */
    waldo__buf data, pong;
    char order[64]; /* 'o' and 'e' as OUT and ERR came, runs as one */
    uint64_t credited;
};

struct client {
    pid_t pid;
    int fd;
    int input_full; /* sending would have waited */
    waldo__hand_decoder decoder;
    waldo__hand_hello hello;
    int error_code; /* of ERROR */
    uint32_t next_id;
    uint64_t received;      /* bytes */
    struct record *records; /* CLIENT_IDS */
    waldo__hand_job jobs[CLIENT_JOBS];
    char labels[CLIENT_JOBS][WALDO_HAND_LABEL_MAX + 1];
    size_t job_count; /* told by JOB; all of them */
};

extern const char *client_program;
/*
 * What the emulator of another processor lacks (qemu-user 7.2): a test that needs it says so first,
 * and is skipped there.
 */
enum need {
    NEED_VFORK,     /* its vfork is a fork: the child's errno does not come back in shared memory */
    NEED_SUBREAPER, /* it refuses PR_SET_CHILD_SUBREAPER: orphans go to init */
    NEED_CONTROL,   /* its recvmsg takes more descriptors than fit into the program's buffer */
};
void needs(enum need need);
int client_emulated(void);
extern int client_stream_room;     /* bytes the next hand can send without being read; 0: some */
extern int client_without_openat2; /* the next hand: as on an old kernel */

void client_open(struct client *client); /* greeted */
void client_spawn(struct client *client);
/* The same for a session of the durable hand at an address. */
void client_attach(struct client *client, const char *address);
void client_attach_silently(struct client *client, const char *address);
/* Without a hand: for what came another way. */
void client_init(struct client *client);
void client_feed(struct client *client, waldo_str bytes);
void client_free(struct client *client);
pid_t client_exec(const char *mode, const char *address, const char *lease, int fd);
void client_close(struct client *client);    /* by the end of input; asserts exit status 0 */
int client_wait_exit(struct client *client); /* closes; returns the exit status of the hand */

void client_send(struct client *client, waldo__buf *bytes); /* reads on while it must wait */
void client_send_raw(struct client *client, const void *bytes, size_t len);
/* Reads what is there, waiting at most timeout_ms for the first byte; 0 at the stream's end. */
int client_read(struct client *client, int timeout_ms);

uint32_t client_run(struct client *client, const waldo__hand_run *run);
uint32_t client_sh(struct client *client, const char *script, waldo__hand_run run);
uint32_t client_file(struct client *client, enum waldo_hand_request type, waldo__hand_file file);
void client_cancel(struct client *client, uint32_t id, uint32_t grace_ms);
void client_stdin(struct client *client, uint32_t id, waldo_str bytes);
void client_write(struct client *client, uint32_t id, waldo_str bytes);

/* Waits for a frame without an id of its own, such as PING's answer. */
void client_ping(struct client *client);
uint32_t client_list(struct client *client); /* waits; the value of DONE */
int client_status(pid_t pid);                /* waits; its exit status, -1: something else */

struct record *client_record(struct client *client, uint32_t id);
struct record *client_started(struct client *client, uint32_t id); /* waits */
struct record *client_ended(struct client *client, uint32_t id);   /* EXIT, START_ERROR or DONE */
/* Waits until a stream has at least len bytes. */
void client_has_output(struct client *client, uint32_t id, int stream, size_t len);

/* Processes "sleep NUMBER": how many there are. */
int count_sleeps(const char *number);
/* Waits until there are so many, or none, for some seconds; the count at the end. */
int wait_sleeps(const char *number, int wanted);
int wait_no_sleeps(const char *number);
/* A number that no other test uses. */
const char *sleep_number(void);
uint64_t test_now_ms(void);

#endif

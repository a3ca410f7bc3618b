#include <string.h>
#include <unistd.h>

#include "keeper.h"
#include "server.h"
#include "sys.h"
#include "tree.h"

#define TEXT_OF(number)    TEXT_OF_IT(number)
#define TEXT_OF_IT(number) #number
/* What src/hand/embed.py knows a hand by. */
#define STATEMENT "waldo-hand " HAND_RELEASE_TEXT ", protocol " TEXT_OF(WALDO_HAND_VERSION) "\n"

static int usage(void)
{
    static const char text[] = STATEMENT "usage: waldo-hand [server [no-openat2]]\n"
                                         "or durable ADDRESS LEASE_MS\n"
                                         "or attach ADDRESS\n"
                                         "or one-shot NONCE REQUEST [RECORD]\n"
                                         "or read NONCE RECORD OFFSET\n"
                                         "or keeper CONTROL IN OUT [KEEP...] -- PROGRAM [ARG...]\n";

    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    return WALDO_HAND_STATUS_USAGE;
}

/* What the arguments behind the mode's name ask for. */
static int run_mode(const char *mode, int count, char **args)
{
    struct durable durable = { .address = args[0] };
    const char *at = count == 2 ? args[1] : "";

    if (strcmp(mode, "server") == 0 &&
        (count == 0 || (count == 1 && strcmp(args[0], "no-openat2") == 0 && filter_openat2()))) {
        return server_main(NULL);
    }
    if (strcmp(mode, "durable") == 0) {
        durable.lease_ms = (uint32_t)next_number(&at);
        if (durable.lease_ms > 0 && *at == '\0') {
            return server_main(&durable);
        }
    }
    if (strcmp(mode, "attach") == 0 && count == 1) {
        return attach_main(args[0]);
    }
    if (strcmp(mode, "one-shot") == 0 && (count == 2 || count == 3)) {
        return one_shot_main(count, args);
    }
    if (strcmp(mode, "read") == 0 && count == 3) {
        return read_main(args);
    }
    return strcmp(mode, "keeper") == 0 ? keeper_main(count, args) : WALDO_HAND_STATUS_USAGE;
}

int main(int argc, char **argv)
{
    int status = argc < 2 ? server_main(NULL) : run_mode(argv[1], argc - 2, argv + 2);

    return status == WALDO_HAND_STATUS_USAGE ? usage() : status;
}

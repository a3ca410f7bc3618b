#include <string.h>
#include <unistd.h>

#include "keeper.h"
#include "server.h"
#include "spawn.h"
#include "tree.h"

static int usage(void)
{
    static const char text[] =
        "usage: waldo-hand [server [no-openat2]]\n"
        "       waldo-hand durable ADDRESS LEASE_MS\n"
        "       waldo-hand attach ADDRESS\n"
        "       waldo-hand one-shot NONCE REQUEST [RECORD]\n"
        "       waldo-hand read NONCE RECORD OFFSET\n"
        "       waldo-hand keeper CONTROL IN OUT [KEEP...] -- PROGRAM [ARG...]\n";

    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    return WALDO_HAND_STATUS_USAGE;
}

int main(int argc, char **argv)
{
    int status = WALDO_HAND_STATUS_USAGE;

    if (argc == 3 && strcmp(argv[1], "server") == 0 && strcmp(argv[2], "no-openat2") == 0) {
        refuse_openat2 = true;
        return server_main(NULL, NULL);
    }
    if (argc < 2 || (argc == 2 && strcmp(argv[1], "server") == 0)) {
        return server_main(NULL, NULL);
    }
    if (argc == 4 && strcmp(argv[1], "durable") == 0) {
        const char *at = argv[3];
        struct durable durable = { .address = argv[2], .lease_ms = (uint32_t)next_number(&at) };

        return durable.lease_ms > 0 && *at == '\0' ? server_main(&durable, NULL) : usage();
    }
    if (argc == 3 && strcmp(argv[1], "attach") == 0) {
        return attach_main(argv[2]);
    }
    if ((argc == 4 || argc == 5) && strcmp(argv[1], "one-shot") == 0) {
        status = one_shot_main(argc - 2, argv + 2);
    } else if (argc == 5 && strcmp(argv[1], "read") == 0) {
        status = read_main(argv + 2);
    } else if (strcmp(argv[1], "keeper") == 0) {
        status = keeper_main(argc - 2, argv + 2);
    }
    return status == WALDO_HAND_STATUS_USAGE ? usage() : status;
}

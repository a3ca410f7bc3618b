/* What the tests of durable hands share: one hand at an address of its own, sessions with it. */
#ifndef WALDO_TESTS_HAND_DURABLE_H
#define WALDO_TESTS_HAND_DURABLE_H

#include "client.h"

#define LONG_LEASE "3600000"

extern char address[64];
extern pid_t hand;
extern int is_root; /* of the machine: may become other users */

void start_hand(const char *lease);
/* Attaching waits for a hand that was started just now. */
void attach_first(struct client *client);
/* A later session: its ids are above those of commands that were kept. */
void attach_next(struct client *client);
void read_to_end(struct client *client);
waldo__hand_run kept(const char *label);

/* A hand before a test, and its end by SIGTERM after it. */
int open_hand(void **state);
int close_hand(void **state);
#define WITH_HAND(test) cmocka_unit_test_setup_teardown(test, open_hand, close_hand)

/* main of a group: the program from argv, root of something; what main returns. */
int run_durable_tests(int argc, char **argv, const struct CMUnitTest *tests, size_t count);

#endif

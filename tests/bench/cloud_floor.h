/*
 * The least that can have commands done in a sandbox of a provider: libcurl, a stream that is held
 * and one request for each, nothing looked at but where a command's answer ends.
 */
#ifndef WALDO_TESTS_BENCH_CLOUD_FLOOR_H
#define WALDO_TESTS_BENCH_CLOUD_FLOOR_H

#include <stdbool.h>

/*
 * folder: what to send, written by cloud_rows.py: `stream` and `input`, a URL and then a header a
 * line; `stream.body`, and `1.body` and `16.body`, the input of so many commands.
 */
bool floor_begin(const char *folder);
void floor_end(void);

bool floor_one(void);
bool floor_sixteen(void); /* by one request */

/* GET, by a connection of its own; what it says as a number, -1 when that fails. */
long floor_number(const char *url);

#endif

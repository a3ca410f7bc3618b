/*
 * The environment: the only file that reads it, and only variables the host allowed by its options.
 */
#ifndef WALDO_BASE_ENV_H
#define WALDO_BASE_ENV_H

const char *waldo__env(const char *name); /* NULL when unset or empty; borrowed until it changes */

#endif

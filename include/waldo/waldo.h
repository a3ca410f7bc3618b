/**
 * @file
 * All of the public API.
 */
#ifndef WALDO_WALDO_H
#define WALDO_WALDO_H

#include <waldo/agent.h>
#include <waldo/alloc.h>
#include <waldo/background.h>
#include <waldo/cancel.h>
#include <waldo/defs.h>
#include <waldo/error.h>
#include <waldo/event.h>
#include <waldo/fleet.h>
#include <waldo/generation.h>
#include <waldo/keys.h>
#include <waldo/log.h>
#include <waldo/machine.h>
#include <waldo/model.h>
#include <waldo/run.h>
#include <waldo/runtime.h>
#include <waldo/sandbox.h>
#include <waldo/status.h>
#include <waldo/store.h>
#include <waldo/tool.h>

#endif

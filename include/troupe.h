// troupe.h: includes all of the library's headers, in an order in which they can be read.
//
// The end of a function's name says what it takes. _as: a table found at run time (of a type, a
// class, a task, a trainer); it is the function behind a typed macro. _with: a pointer to options,
// which its macro takes as designated initialisers (0 is the default). _from: a pointer to the
// whole argument instead of its fields. _named: class and method by name. _many: several at once.
// _get: a struct to fill with a snapshot (but troupe_get and troupe_queue_get take a value out).
// _keep: a borrowed reference, of which it makes one that the caller owns. Functions and macros
// whose names end in an underscore are internal.
#ifndef TROUPE_H
#define TROUPE_H

// clang-format off
#include <troupe/status.h>
#include <troupe/log.h>
#include <troupe/wire.h>
#include <troupe/runtime.h>
#include <troupe/object.h>
#include <troupe/tensor.h>
#include <troupe/device.h>
#include <troupe/actor.h>
#include <troupe/node.h>
#include <troupe/observe.h>
#include <troupe/resources.h>
#include <troupe/task.h>
#include <troupe/life.h>
#include <troupe/async.h>
#include <troupe/pool.h>
#include <troupe/queue.h>
#include <troupe/channel.h>
#include <troupe/supervise.h>
#include <troupe/server.h>
#include <troupe/storage.h>
#include <troupe/train.h>
#include <troupe/run.h>
#include <troupe/collective.h>
#include <troupe/storage.h>
#include <troupe/gradients.h>
#include <troupe/process.h>
#include <troupe/safetensors.h>
#include <troupe/data.h>
#include <troupe/model.h>
#include <troupe/repository.h>
#include <troupe/stored.h>
#include <troupe/tune.h>
#include <troupe/why.h>
#include <troupe/results.h>
#include <troupe/tune_program.h>
#include <troupe/serve.h>
// clang-format on

#endif

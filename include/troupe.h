// troupe.h: everything. See the headers it includes, in this order.
#ifndef TROUPE_H
#define TROUPE_H

// clang-format off
#include <troupe/status.h>
#include <troupe/log.h>
#include <troupe/wire.h>
#include <troupe/runtime.h>
#include <troupe/object.h>
#include <troupe/tensor.h>
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
#include <troupe/train.h>
#include <troupe/tune.h>
// clang-format on

#endif

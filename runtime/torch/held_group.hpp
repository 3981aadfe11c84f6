// The content of a Group, and the functions that make its backends. For this folder's .cpp files only.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "runtime/torch/process_group.hpp"

namespace rtrain::ddp {

struct Group::Held {
    c10::intrusive_ptr<c10d::ProcessGroup> group;
};

using BackendPointer = c10::intrusive_ptr<c10d::Backend>;
BackendPointer make_gloo(const c10::intrusive_ptr<c10d::Store>& store, const Place& place,
                         std::chrono::milliseconds timeout);
// Linked with a CUDA wheel only (RTRAIN_WITH_NCCL).
BackendPointer make_nccl(const c10::intrusive_ptr<c10d::Store>& store, const Place& place,
                         std::chrono::milliseconds timeout);

}  // namespace rtrain::ddp

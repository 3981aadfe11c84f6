// The only file that uses gloo's names (gloo_names/): the wheel does not contain its headers.
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "runtime/torch/held_group.hpp"

namespace rtrain::ddp {

BackendPointer make_gloo(const c10::intrusive_ptr<c10d::Store>& store, const Place& place,
                         std::chrono::milliseconds timeout) {
    auto options = c10d::ProcessGroupGloo::Options::create_default(timeout);
    return c10::make_intrusive<c10d::ProcessGroupGloo>(store, place.rank, place.world_size, std::move(options));
}

}  // namespace rtrain::ddp

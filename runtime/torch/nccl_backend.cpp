// The only file that needs the headers of NCCL and CUDA. It is compiled wherever nccl.h exists, so that it stays
// correct. It is linked only with a CUDA wheel, whose libtorch_cuda.so contains ProcessGroupNCCL.
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "runtime/torch/held_group.hpp"

namespace rtrain::ddp {

BackendPointer make_nccl(const c10::intrusive_ptr<c10d::Store>& store, const Place& place,
                         std::chrono::milliseconds timeout) {
    auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = timeout;
    return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, place.rank, place.world_size, std::move(options));
}

}  // namespace rtrain::ddp

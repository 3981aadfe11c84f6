// Data-parallel training on c10d's Reducer, the engine of Python's DistributedDataParallel: gradients are averaged over
// the ranks in buckets, while backward still runs. Ranks in C++ and in Python may be mixed, with the same parameters in
// the same order and the same bucket sizes on both sides.
//
//   DataParallel parallel(group, model->parameters(), model->buffers());
//   torch::Tensor loss = parallel.forward([&] { return loss_of(model->forward(images), labels); });
//   loss.backward();      // ends with averaged gradients
//   optimizer.step();
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/torch/process_group.hpp"

namespace rtrain::ddp {

// How gradients are exchanged. The defaults are those of Python's DistributedDataParallel; all ranks need the same
// ones.
struct DataParallelOptions {
    std::int64_t first_bucket_bytes = std::int64_t{1} << 20;  // small, so that the first exchange starts early
    std::int64_t bucket_bytes = std::int64_t{25} << 20;       // bytes that are exchanged at once
    // Whether a step may leave parameters without a gradient.
    enum class Unused {
        none,                 // every parameter gets a gradient in every step
        may_occur,            // some parameters may get none; each step then searches for them
    } unused = Unused::none;  // with `none`, a parameter without a gradient makes the next step throw
};

// Averages gradients over the ranks of a group. Has no effect if the process is alone in its group.
class DataParallel {
  public:
    // Checks that all ranks have the same `parameters` (those that require a gradient, in their order), then gives
    // every rank the values that rank 0 has in `parameters` and `buffers`. Throws c10::Error when the ranks differ.
    DataParallel(Group group, const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& buffers,
                 const DataParallelOptions& options = {});
    // Frees the buckets. The group stays.
    ~DataParallel();
    // Moves the exchange; the other object must not be used again.
    DataParallel(DataParallel&&) noexcept;
    // Moves the exchange; the other object must not be used again.
    DataParallel& operator=(DataParallel&&) noexcept;

    // Returns what `body` returns, the loss or the output as one tensor, and makes the next backward() exchange
    // gradients.
    template <class Body>
    auto forward(Body&& body) {
        before_forward();
        auto output = body();
        before_backward(output);
        return output;
    }

    // The two halves of forward(), for loops that cannot pass a body. This half is called before the model's own
    // forward.
    void before_forward();
    // Makes the next backward() exchange gradients; `output` is the tensor that backward() starts from.
    void before_backward(const at::Tensor& output);

  private:
    struct Engine;
    std::unique_ptr<Engine> engine_;
};

}  // namespace rtrain::ddp

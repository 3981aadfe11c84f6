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

struct DataParallelOptions {
    std::int64_t first_bucket_bytes = std::int64_t{1} << 20;  // small, so that the first exchange starts early
    std::int64_t bucket_bytes = std::int64_t{25} << 20;
    enum class Unused {
        none,
        may_occur
    } unused = Unused::none;  // may_occur: some parameters get no gradient in some steps
};

class DataParallel {
  public:
    // Checks that all ranks have the same parameters, then gives every rank rank 0's values. Throws when they differ.
    DataParallel(Group group, const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& buffers,
                 const DataParallelOptions& options = {});
    ~DataParallel();
    DataParallel(DataParallel&&) noexcept;
    DataParallel& operator=(DataParallel&&) noexcept;

    // Runs `body`, which gives the loss (or the output) as a tensor, and makes the next backward exchange gradients.
    template <class Body>
    auto forward(Body&& body) {
        before_forward();
        auto output = body();
        before_backward(output);
        return output;
    }

    void before_forward();
    void before_backward(const at::Tensor& output);

  private:
    struct Engine;
    std::unique_ptr<Engine> engine_;
};

}  // namespace rtrain::ddp

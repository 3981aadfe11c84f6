#include "runtime/torch/data_parallel.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <type_traits>
#include <unordered_map>

#include "runtime/torch/held_group.hpp"

namespace rtrain::ddp {
namespace {

using Buckets = std::vector<std::vector<std::size_t>>;
using Names = std::unordered_map<std::size_t, std::string>;
using GroupPointer = c10::intrusive_ptr<c10d::ProcessGroup>;

struct Plan {
    std::vector<at::Tensor> parameters;
    Buckets buckets;
    std::vector<std::size_t> bucket_limits;
    GroupPointer group;
    std::vector<bool> sparse;
    std::int64_t bucket_bytes, first_bucket_bytes;
    bool find_unused;
};

// PyTorch changes this constructor between releases; the compiler finds the one of the present wheel. Gradients belong
// to the parameters (no bucket views), because C++ optimizers detach them in zero_grad().
template <class Reducer>
std::unique_ptr<Reducer> make_reducer(const Plan& p) {
    constexpr bool views = false;
    constexpr bool skip_unused = false, python_reducer = false;
    if constexpr (std::is_constructible_v<Reducer, std::vector<at::Tensor>, Buckets, GroupPointer, std::vector<bool>,
                                          std::int64_t, bool, bool, Names, std::int64_t, bool, bool,
                                          std::vector<std::int64_t>>) {
        return std::make_unique<Reducer>(p.parameters, p.buckets, p.group, p.sparse, p.bucket_bytes, p.find_unused,
                                         views, Names{}, p.first_bucket_bytes, skip_unused, python_reducer,
                                         std::vector<std::int64_t>{});
    } else if constexpr (std::is_constructible_v<Reducer, std::vector<at::Tensor>, Buckets, GroupPointer,
                                                 std::vector<bool>, std::int64_t, bool, bool, Names, std::int64_t>) {
        return std::make_unique<Reducer>(p.parameters, p.buckets, p.group, p.sparse, p.bucket_bytes, p.find_unused,
                                         views, Names{}, p.first_bucket_bytes);
    } else {
        static_assert(
            std::is_constructible_v<Reducer, std::vector<at::Tensor>, Buckets, std::vector<std::size_t>, GroupPointer,
                                    std::vector<bool>, std::int64_t, bool, bool, Names, std::int64_t>,
            "this PyTorch release constructs c10d::Reducer in yet another way: add it here");
        return std::make_unique<Reducer>(p.parameters, p.buckets, p.bucket_limits, p.group, p.sparse, p.bucket_bytes,
                                         p.find_unused, views, Names{}, p.first_bucket_bytes);
    }
}

}  // namespace

struct DataParallel::Engine {
    std::unique_ptr<c10d::Reducer> reducer;  // null if this process is alone in the group
    bool find_unused = false;
};

DataParallel::DataParallel(Group group, const std::vector<at::Tensor>& parameters,
                           const std::vector<at::Tensor>& buffers, const DataParallelOptions& options)
    : engine_(std::make_unique<Engine>()) {
    if (group.size() == 1) return;
    const GroupPointer& c10d_group = group.held().group;
    Plan plan{.parameters = {},
              .buckets = {},
              .bucket_limits = {},
              .group = c10d_group,
              .sparse = {},
              .bucket_bytes = options.bucket_bytes,
              .first_bucket_bytes = options.first_bucket_bytes,
              .find_unused = options.unused == DataParallelOptions::Unused::may_occur};
    std::copy_if(parameters.begin(), parameters.end(), std::back_inserter(plan.parameters),
                 [](const at::Tensor& parameter) { return parameter.requires_grad(); });
    c10d::verify_params_across_processes(c10d_group, plan.parameters, std::nullopt);
    std::vector<at::Tensor> state;
    for (const auto* tensors : {&parameters, &buffers}) {
        for (const at::Tensor& tensor : *tensors) state.push_back(tensor.detach());
    }
    group.broadcast(state);

    plan.sparse.assign(plan.parameters.size(), false);
    // The buckets equal those of Python: one for the first step, because the buckets are then rebuilt in the order in
    // which gradients arrived. With unused parameters they are not rebuilt.
    std::vector<std::size_t> limits{static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max())};
    if (plan.find_unused) {
        limits = {static_cast<std::size_t>(options.first_bucket_bytes), static_cast<std::size_t>(options.bucket_bytes)};
    }
    std::tie(plan.buckets, plan.bucket_limits) =
        c10d::compute_bucket_assignment_by_size(plan.parameters, limits, plan.sparse);
    // Backward computes the last parameters' gradients first, so they are exchanged first.
    std::reverse(plan.buckets.begin(), plan.buckets.end());
    std::reverse(plan.bucket_limits.begin(), plan.bucket_limits.end());
    engine_->reducer = make_reducer<c10d::Reducer>(plan);
    engine_->find_unused = plan.find_unused;
}

DataParallel::~DataParallel() = default;
DataParallel::DataParallel(DataParallel&&) noexcept = default;
DataParallel& DataParallel::operator=(DataParallel&&) noexcept = default;

void DataParallel::before_forward() {
    if (!engine_->reducer) return;
    engine_->reducer->prepare_for_forward();
    engine_->reducer->rebuild_buckets();
}

void DataParallel::before_backward(const at::Tensor& output) {
    if (!engine_->reducer) return;
    // The outputs are searched for unused parameters only on request; otherwise the list stays empty, as in Python.
    std::vector<at::Tensor> outputs;
    if (engine_->find_unused) outputs.push_back(output);
    engine_->reducer->prepare_for_backward(outputs);
}

}  // namespace rtrain::ddp

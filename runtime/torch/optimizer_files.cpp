#include "runtime/torch/optimizer_files.hpp"

#include <torch/nn/module.h>
#include <torch/optim/sgd.h>

#include <stdexcept>

#include "runtime/torch/tensor_files.hpp"

namespace rtrain::ddp {
namespace {

using torch::optim::SGDParamState;

// SGD keeps its state by the parameter's implementation pointer; none before the first step.
SGDParamState* momentum_of(torch::optim::SGD& optimizer, const at::Tensor& parameter) {
    auto& states = optimizer.state();
    const auto entry = states.find(parameter.unsafeGetTensorImpl());
    return entry == states.end() ? nullptr : static_cast<SGDParamState*>(entry->second.get());
}

const at::Tensor& wanted(const TensorFiles& files, const std::string& key, const at::Tensor& like) {
    const auto entry = files.tensors.find(key);
    if (entry == files.tensors.end())
        throw std::runtime_error("the checkpoint has no tensor '" + key + "': it is of another model");
    if (entry->second.sizes() != like.sizes()) {
        throw std::runtime_error("the checkpoint's tensor '" + key +
                                 "' has another shape than the model's: it is of another model");
    }
    return entry->second;
}

}  // namespace

void save_training(const std::string& directory, const std::string& name, const torch::nn::Module& model,
                   torch::optim::SGD& optimizer, const std::string& values_json) {
    TensorFiles files{.tensors = {}, .values_json = values_json};
    for (const auto& one : model.named_buffers()) files.tensors["model." + one.key()] = one.value();
    for (const auto& one : model.named_parameters()) {
        files.tensors["model." + one.key()] = one.value();
        const SGDParamState* state = momentum_of(optimizer, one.value());
        if (state && state->momentum_buffer().defined())
            files.tensors["momentum." + one.key()] = state->momentum_buffer();
    }
    save_tensors(directory, name, files);
}

std::string load_training(const std::string& directory, const std::string& name, torch::nn::Module& model,
                          torch::optim::SGD& optimizer) {
    const TensorFiles files = load_tensors(directory, name);
    const torch::NoGradGuard no_gradients;
    for (auto& one : model.named_buffers()) one.value().copy_(wanted(files, "model." + one.key(), one.value()));
    for (auto& one : model.named_parameters()) {
        one.value().copy_(wanted(files, "model." + one.key(), one.value()));
        if (!files.tensors.contains("momentum." + one.key())) continue;
        const at::Tensor& momentum = wanted(files, "momentum." + one.key(), one.value());
        auto state = std::make_unique<SGDParamState>();
        state->momentum_buffer(momentum.to(one.value().device()));
        optimizer.state()[one.value().unsafeGetTensorImpl()] = std::move(state);
    }
    return files.values_json;
}

}  // namespace rtrain::ddp

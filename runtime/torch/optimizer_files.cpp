#include "runtime/torch/optimizer_files.hpp"

#include <torch/nn/module.h>
#include <torch/optim/sgd.h>

#include <stdexcept>

#include "runtime/torch/tensor_files.hpp"

namespace rtrain::ddp {
namespace {

using torch::optim::SGDParamState;

// SGD stores its state under the parameter's implementation pointer. There is none before the first step.
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
    for (const auto& buffer : model.named_buffers()) files.tensors["model." + buffer.key()] = buffer.value();
    for (const auto& parameter : model.named_parameters()) {
        files.tensors["model." + parameter.key()] = parameter.value();
        const SGDParamState* state = momentum_of(optimizer, parameter.value());
        if (state && state->momentum_buffer().defined())
            files.tensors["momentum." + parameter.key()] = state->momentum_buffer();
    }
    save_tensors(directory, name, files);
}

std::string load_training(const std::string& directory, const std::string& name, torch::nn::Module& model,
                          torch::optim::SGD& optimizer) {
    const TensorFiles files = load_tensors(directory, name);
    const torch::NoGradGuard no_gradients;
    for (auto& buffer : model.named_buffers())
        buffer.value().copy_(wanted(files, "model." + buffer.key(), buffer.value()));
    for (auto& parameter : model.named_parameters()) {
        parameter.value().copy_(wanted(files, "model." + parameter.key(), parameter.value()));
        if (!files.tensors.contains("momentum." + parameter.key())) continue;
        const at::Tensor& momentum = wanted(files, "momentum." + parameter.key(), parameter.value());
        auto state = std::make_unique<SGDParamState>();
        state->momentum_buffer(momentum.to(parameter.value().device()));
        optimizer.state()[parameter.value().unsafeGetTensorImpl()] = std::move(state);
    }
    return files.values_json;
}

}  // namespace rtrain::ddp

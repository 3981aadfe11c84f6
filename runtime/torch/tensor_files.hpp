// Checkpoint files that C++ and Python (`rtrain.train.tensors`) both read and write: <name>.safetensors holds the
// tensors, <name>.json the plain values (step, learning rate, configuration). Neither needs PyTorch to be looked into.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace rtrain::ddp {

struct TensorFiles {
    std::map<std::string, at::Tensor> tensors;
    std::string values_json = "{}";  // one JSON object
};

// Both throw std::runtime_error that names the file and what is wrong with it. Tensors of any device are written; they
// are read to the CPU.
void save_tensors(const std::string& directory, const std::string& name, const TensorFiles& files);
TensorFiles load_tensors(const std::string& directory, const std::string& name);

}  // namespace rtrain::ddp

// Checkpoint files that C++ and Python (`rtrain.train.tensors`) both read and write: NAME.safetensors holds the
// tensors, NAME.json the plain values (step, learning rate, configuration). Neither needs PyTorch to be looked into.
// The format: https://github.com/huggingface/safetensors#format
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace rtrain::ddp {

// The content of the two files.
struct TensorFiles {
    std::map<std::string, at::Tensor> tensors;  // key: the name; any shape, types of safetensors
    std::string values_json = "{}";             // one JSON object
};

// Writes `files` to DIRECTORY/NAME.safetensors and DIRECTORY/NAME.json; makes `directory` if it is not there, and
// replaces files of that `name`. Tensors of any device are written. Throws std::runtime_error when the values are no
// JSON object, a tensor has a type that safetensors lacks, or a file cannot be written.
void save_tensors(const std::string& directory, const std::string& name, const TensorFiles& files);
// Returns what save_tensors wrote to `directory` under `name`, with the tensors on the CPU. Throws std::runtime_error
// that names the file and what is wrong with it: a file may come from anywhere, so every size in it is checked.
TensorFiles load_tensors(const std::string& directory, const std::string& name);

}  // namespace rtrain::ddp

// A model and its optimizer in one pair of tensor files (tensor_files.hpp): `model.NAME` for parameters and buffers,
// `momentum.NAME` for SGD's momentum buffers. Python reads the same names with `rtrain.train.tensors.load`.
#pragma once

#include <string>

namespace torch::nn {
class Module;
}
namespace torch::optim {
class SGD;
}

namespace rtrain::ddp {

// Writes two files called `name`: the parameters and buffers of `model` and the momentum of `optimizer` to
// DIRECTORY/NAME.safetensors, and `values_json`, one JSON object of whatever else is needed to go on (epoch, step), to
// DIRECTORY/NAME.json. Makes `directory` if it is not there. Throws std::runtime_error when a file cannot be written.
void save_training(const std::string& directory, const std::string& name, const torch::nn::Module& model,
                   torch::optim::SGD& optimizer, const std::string& values_json);

// Fills `model` and `optimizer` from the files `name` of `directory`, and returns the values as one JSON object. Throws
// std::runtime_error that names what does not fit: a file, a tensor that is missing, a tensor of another shape.
std::string load_training(const std::string& directory, const std::string& name, torch::nn::Module& model,
                          torch::optim::SGD& optimizer);

}  // namespace rtrain::ddp

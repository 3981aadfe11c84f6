// A model and its optimizer in one pair of tensor files (tensor_files.hpp): "model.<name>" for parameters and buffers,
// "momentum.<name>" for SGD's momentum buffers. Python reads the same names with `rtrain.train.tensors.load`.
#pragma once

#include <string>

namespace torch::nn {
class Module;
}
namespace torch::optim {
class SGD;
}

namespace rtrain::ddp {

// `values_json`: one JSON object of whatever else is needed to go on (epoch, step).
void save_training(const std::string& directory, const std::string& name, const torch::nn::Module& model,
                   torch::optim::SGD& optimizer, const std::string& values_json);

// Fills model and optimizer and gives the values back. Throws std::runtime_error that names what does not fit.
std::string load_training(const std::string& directory, const std::string& name, torch::nn::Module& model,
                          torch::optim::SGD& optimizer);

}  // namespace rtrain::ddp

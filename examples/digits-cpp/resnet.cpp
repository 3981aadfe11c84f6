#include "resnet.hpp"

#include <torch/torch.h>

namespace {

namespace nn = torch::nn;
constexpr int groups = 8;

nn::Conv2d conv(int from, int to, int kernel, int stride) {
    return nn::Conv2d(nn::Conv2dOptions(from, to, kernel).stride(stride).padding(kernel / 2).bias(false));
}

nn::GroupNorm norm(int channels) { return nn::GroupNorm(nn::GroupNormOptions(groups, channels)); }

// Two 3x3 convolutions with a shortcut around them (He et al., 2015, figure 5 left).
struct BlockImpl : nn::Module {
    BlockImpl(int from, int to, int stride) {
        nn::GroupNorm last = norm(to);
        nn::init::zeros_(
            // A block begins as its shortcut, which makes the start of training stable (Goyal et al., 2017)
            last->weight);
        body = nn::Sequential(conv(from, to, 3, stride), norm(to), nn::ReLU(), conv(to, to, 3, 1), last);
        register_module("body", body);
        if (stride == 1 && from == to) return;
        around = nn::Sequential(conv(from, to, 1, stride), norm(to));
        register_module("around", around);
    }
    torch::Tensor forward(const torch::Tensor& x) {
        return torch::relu(body->forward(x) + (around ? around->forward(x) : x));
    }
    nn::Sequential body{nullptr}, around{nullptr};
};
TORCH_MODULE(Block);

}  // namespace

torch::nn::Sequential resnet18(int channels, int classes) {
    nn::Sequential net(conv(channels, 64, 3, 1), norm(64), nn::ReLU());
    int from = 64;
    for (const int width : {64, 128, 256, 512}) {
        net->push_back(Block(from, width, width == 64 ? 1 : 2));
        net->push_back(Block(width, width, 1));
        from = width;
    }
    net->push_back(nn::AdaptiveAvgPool2d(nn::AdaptiveAvgPool2dOptions(1)));
    net->push_back(nn::Flatten());
    net->push_back(nn::Linear(from, classes));
    return net;
}

// ResNet-18 for small images, with GroupNorm instead of BatchNorm: a sample's result then does not depend on how the
// batch is spread over the ranks. The first layer is a 3x3 convolution without pooling, as usual for images this small.
#pragma once

namespace torch::nn {
class Sequential;
}

torch::nn::Sequential resnet18(int channels, int classes);

// A C++ rank for scripts/gpu-check. It connects to the others by the backend of the job, sums a value, trains a small
// network with DataParallel and the same network alone, and reports. usage: ddp_worker FILE, to which it writes the
// facts
#include <torch/cuda.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>

#include "runtime/torch/data_parallel.hpp"
#include "runtime/torch/held_group.hpp"
#include "runtime/torch/process_group.hpp"
#include "runtime/worker/rtrain.hpp"

namespace {

using namespace rtrain::ddp;
constexpr std::int64_t width = 32, batch = 24, steps = 10;

// Returns this worker's device among the visible ones, as Python's get_device() chooses it.
torch::Device own_device(const Place& place) {
    if (!torch::cuda::is_available()) return torch::kCPU;
    const char* named = std::getenv("RTRAIN_DEVICES");
    const int index = named && *named ? std::atoi(named) : place.local_rank;
    return {torch::kCUDA, static_cast<c10::DeviceIndex>(index)};
}

torch::nn::Sequential network(torch::Device device) {
    torch::manual_seed(3);
    torch::nn::Sequential net(torch::nn::Linear(width, 48), torch::nn::Tanh(), torch::nn::Linear(48, 1));
    net->to(device, torch::kDouble);
    return net;
}

torch::Tensor inputs(std::int64_t step, torch::Device device) {
    const auto positions = torch::arange(batch * width, torch::kDouble) + static_cast<double>(step);
    return torch::sin(positions * 0.37).reshape({batch, width}).to(device);
}

torch::Tensor loss_of(torch::nn::Sequential& net, const torch::Tensor& rows) {
    return torch::mse_loss(net->forward(rows), rows.sum(1, true));
}

// Returns the largest difference between the parameters of `group`'s training and of one process with the whole
// batches.
double train(const Group& group, torch::Device device) {
    torch::nn::Sequential shared = network(device), alone = network(device);
    torch::optim::SGD shared_optimizer(shared->parameters(), 0.05), alone_optimizer(alone->parameters(), 0.05);
    DataParallel parallel(group, shared->parameters(), shared->buffers());
    for (std::int64_t step = 0; step < steps; ++step) {
        const torch::Tensor rows = inputs(step, device);
        shared_optimizer.zero_grad();
        const torch::Tensor own = rows.slice(0, group.rank(), batch, group.size());
        torch::Tensor loss = parallel.forward([&] { return loss_of(shared, own); });
        loss.backward();
        shared_optimizer.step();
        alone_optimizer.zero_grad();
        loss_of(alone, rows).backward();
        alone_optimizer.step();
    }
    double largest = 0;
    for (std::size_t i = 0; i < shared->parameters().size(); ++i) {
        const torch::Tensor difference = shared->parameters()[i] - alone->parameters()[i];
        largest = std::max(largest, difference.abs().max().item<double>());
    }
    return largest;
}

std::string facts(rtrain::Worker& worker) {
    const Place place = place_from_environment();
    const torch::Device device = own_device(place);
    Group group = process_group_from_environment({.timeout = std::chrono::minutes(2)});
    torch::Tensor sum = torch::full({1000}, place.rank + 1.0, torch::dtype(torch::kDouble).device(device));
    group.sum(sum);
    const double difference = train(group, device);
    std::ostringstream text;
    text << R"({"backend": ")" << group.held().group->getBackendName() << R"(", "device": ")"
         << (device.is_cuda() ? "cuda" : "cpu") << R"(", "world": )" << group.size() << R"(, "sum": )"
         << sum.mean().item<double>() << R"(, "difference": )" << difference << "}";
    worker.report(text.str());
    group.barrier();
    group.shutdown();
    return text.str();
}

}  // namespace

int main(int count, char** arguments) {
    std::optional<rtrain::Worker> worker;
    std::string cause;
    try {
        worker.emplace();
        const std::string text = facts(*worker);
        if (count > 1) std::ofstream(arguments[1] + std::string("-r") + std::getenv("RANK")) << text;
        return 0;
    } catch (const c10::Error& error) { cause = error.what_without_backtrace(); } catch (const std::exception& error) {
        cause = error.what();
    }
    std::cerr << "ddp_worker: " << cause << std::endl;
    if (worker) worker->fail(cause);
    return 1;
}

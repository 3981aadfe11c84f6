// A small C++ rank for tests/python/exact: trains an MLP in float64 on data that both languages compute alike, prints
// what a sampler gives, reads and writes tensor files. usage: torch_probe train OUT FIRST LAST [FROM] | sampler N WORLD
// EPOCH SEED | copy FROM TO
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/torch/data_parallel.hpp"
#include "runtime/torch/distributed_sampler.hpp"
#include "runtime/torch/optimizer_files.hpp"
#include "runtime/torch/process_group.hpp"
#include "runtime/torch/tensor_files.hpp"

namespace {

using namespace rtrain::ddp;
constexpr std::int64_t samples = 320, pixels = 64, hidden = 512, classes = 10, global_batch = 32;

// Wide enough for several buckets of gradients.
torch::nn::Sequential network() {
    return torch::nn::Sequential(torch::nn::Linear(pixels, hidden), torch::nn::Tanh(),
                                 torch::nn::Linear(hidden, hidden), torch::nn::Tanh(),
                                 torch::nn::Linear(hidden, classes));
}

int train(const std::string& out, std::int64_t first, std::int64_t last, const char* from) {
    Group group = process_group_from_environment({.timeout = std::chrono::minutes(5)});
    const auto positions = torch::arange(samples * pixels, torch::kDouble).reshape({samples, pixels});
    const torch::Tensor data = torch::sin(positions * 0.37),
                        labels = torch::arange(samples, torch::kLong) * 7 % classes;
    torch::manual_seed(group.rank() + 1);  // different on purpose: rank 0's values must reach all
    torch::nn::Sequential net = network();
    net->to(torch::kDouble);
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
    if (from) load_training(from, "state", *net, optimizer);
    DataParallel parallel(group, net->parameters(), net->buffers());
    for (std::int64_t step = first; step < last; ++step) {
        const std::int64_t begin = step * global_batch % samples;
        const torch::Tensor rows = torch::arange(begin + group.rank(), begin + global_batch, group.size());
        optimizer.zero_grad();
        torch::Tensor loss = parallel.forward([&] {
            return torch::nn::functional::cross_entropy(net->forward(data.index_select(0, rows)),
                                                        labels.index_select(0, rows));
        });
        loss.backward();
        optimizer.step();
    }
    save_training(out + "/rank" + std::to_string(group.rank()), "state", *net, optimizer,
                  "{\"step\":" + std::to_string(last) + "}");
    group.barrier();
    group.shutdown();
    return 0;
}

int sampler(std::int64_t count, int world, std::uint64_t epoch, std::uint64_t seed) {
    for (int rank = 0; rank < world; ++rank) {
        for (const auto index : DistributedSampler(count, rank, world, {.seed = seed}).indices(epoch))
            std::printf("%ld ", index);
        std::printf("\n");
    }
    return 0;
}

int run(const std::vector<std::string>& words) {
    const std::string verb = words.empty() ? "" : words[0];
    if (verb == "train" && words.size() >= 4) {
        return train(words[1], std::stol(words[2]), std::stol(words[3]), words.size() > 4 ? words[4].c_str() : nullptr);
    }
    if (verb == "sampler" && words.size() == 5) {
        return sampler(std::stol(words[1]), std::stoi(words[2]), std::stoul(words[3]), std::stoul(words[4]));
    }
    if (verb == "copy" && words.size() == 3) {
        save_tensors(words[2], "state", load_tensors(words[1], "state"));
        return 0;
    }
    std::fprintf(stderr, "torch_probe: see the head of its source for the words it knows\n");
    return 2;
}

}  // namespace

int main(int count, char** arguments) {
    try {
        return run({arguments + 1, arguments + count});
    } catch (const c10::Error& error) {
        std::fprintf(stderr, "torch_probe: %s\n", error.what_without_backtrace());
    } catch (const std::exception& error) { std::fprintf(stderr, "torch_probe: %s\n", error.what()); }
    return 1;
}

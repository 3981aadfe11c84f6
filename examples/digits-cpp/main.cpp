// Handwritten digits in C++: ResNet-18 with LibTorch, data-parallel over the workers of an rtrain run, a checkpoint
// every few steps, and an exact resume from the newest one. usage: digits DATA.csv (64 pixels and the label per row)
#include <torch/torch.h>

#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "resnet.hpp"
#include "runtime/torch/csv.hpp"
#include "runtime/torch/data_parallel.hpp"
#include "runtime/torch/distributed_sampler.hpp"
#include "runtime/torch/optimizer_files.hpp"
#include "runtime/torch/process_group.hpp"
#include "runtime/worker/rtrain.hpp"

namespace {

using nlohmann::json;
constexpr std::int64_t test_images = 360, side = 8, classes = 10;

std::int64_t setting(const char* name, std::int64_t otherwise) {
    const char* value = std::getenv(name);
    return value ? std::stoll(value) : otherwise;
}

struct Data {
    torch::Tensor train_images, train_labels, test_images, test_labels;
};

// Loads the images, shuffled once with a fixed seed. The last ones are for the test.
Data load(const std::string& path, torch::Device device) {
    const torch::Tensor rows = rtrain::ddp::read_csv(path);
    torch::Generator chance = at::detail::createCPUGenerator(0);
    const torch::Tensor mixed = rows.index_select(0, torch::randperm(rows.size(0), chance));
    const torch::Tensor images =
        (mixed.slice(1, 0, side * side) / 16).to(torch::kFloat).reshape({-1, 1, side, side}).to(device);
    const torch::Tensor labels = mixed.select(1, side * side).to(torch::kLong).to(device);
    const std::int64_t train = rows.size(0) - test_images;
    return {images.slice(0, 0, train), labels.slice(0, 0, train), images.slice(0, train), labels.slice(0, train)};
}

double accuracy(torch::nn::Sequential& net, const Data& data) {
    const torch::NoGradGuard no_gradients;
    const torch::Tensor right = net->forward(data.test_images).argmax(1).eq(data.test_labels);
    return right.to(torch::kDouble).mean().item<double>();
}

class Training {
  public:
    Training(rtrain::Worker& worker, rtrain::ddp::Group group, const Data& data, torch::Device device)
        : worker_(worker),
          group_(std::move(group)),
          data_(data),
          sampler_(data.train_labels.size(0), group_.rank(), group_.size()) {
        torch::manual_seed(0);
        net_ = resnet18(1, classes);
        net_->to(device);
        optimizer_.emplace(net_->parameters(), torch::optim::SGDOptions(learning_rate).momentum(0.9));
        resume();
        parallel_.emplace(group_, net_->parameters(), net_->buffers());
    }

    void run() {
        for (; epoch_ < epochs_; ++epoch_, step_ = 0) train_epoch();
        if (group_.rank() != 0) return;
        std::cout << "final accuracy: " << accuracy(net_, data_) << std::endl;
    }

  private:
    static constexpr double learning_rate =
        0.03;  // falls to 0 along a line, by position: a resumed run makes the same steps

    void resume() {
        const auto text = worker_.checkpoint_json();
        if (!text) return;
        const json checkpoint = json::parse(*text);
        const json values = json::parse(rtrain::ddp::load_training(checkpoint.at("path"), "state", *net_, *optimizer_));
        epoch_ = values.at("epoch");
        step_ = values.at("step");
        if (group_.rank() == 0) {
            std::cout << "resumed at epoch " << epoch_ << " step " << step_ << " from " << checkpoint.at("directory")
                      << std::endl;
        }
    }

    void set_learning_rate(std::int64_t steps_per_epoch) {
        const auto done = static_cast<double>(epoch_ * steps_per_epoch + step_);
        const double rate = learning_rate * (1 - done / static_cast<double>(epochs_ * steps_per_epoch));
        for (auto& group : optimizer_->param_groups()) static_cast<torch::optim::SGDOptions&>(group.options()).lr(rate);
    }

    torch::Tensor train_step(const torch::Tensor& rows) {
        optimizer_->zero_grad();
        torch::Tensor loss = parallel_->forward([&] {
            const torch::Tensor scores = net_->forward(data_.train_images.index_select(0, rows));
            return torch::nn::functional::cross_entropy(scores, data_.train_labels.index_select(0, rows));
        });
        loss.backward();
        optimizer_->step();
        return loss.detach();
    }

    void train_epoch() {
        const auto order = sampler_.indices(static_cast<std::uint64_t>(epoch_));
        const torch::Tensor all = torch::tensor(order, torch::kLong).to(data_.train_labels.device());
        const std::int64_t steps = (all.size(0) + batch_ - 1) / batch_;
        while (step_ < steps) {
            const torch::Tensor rows = all.slice(0, step_ * batch_, std::min((step_ + 1) * batch_, all.size(0)));
            set_learning_rate(steps);
            const torch::Tensor loss = train_step(rows);
            ++step_;
            if (step_ == steps || step_ % checkpoint_steps_ == 0) report(loss.item<double>(), step_ == steps);
        }
    }

    // Every rank reports. Rank 0 adds the files in a directory that is moved instead of copied.
    void report(double loss, bool epoch_ends) {
        json metrics = {{"epoch", epoch_}, {"step", step_}, {"loss", loss}};
        if (group_.rank() != 0) return worker_.report(metrics.dump());
        if (epoch_ends) metrics["accuracy"] = accuracy(net_, data_);
        const std::string directory = worker_.checkpoint_directory();
        const json position = {{"epoch", epoch_}, {"step", step_}};
        rtrain::ddp::save_training(directory, "state", *net_, *optimizer_, position.dump());
        worker_.report(metrics.dump(), {.checkpoint = directory, .owned = true});
        std::cout << metrics.dump() << std::endl;
    }

    rtrain::Worker& worker_;
    rtrain::ddp::Group group_;
    const Data& data_;
    rtrain::ddp::DistributedSampler sampler_;
    torch::nn::Sequential net_;
    std::optional<torch::optim::SGD> optimizer_;
    std::optional<rtrain::ddp::DataParallel> parallel_;
    const std::int64_t epochs_ = setting("EPOCHS", 3), batch_ = setting("BATCH", 32),
                       checkpoint_steps_ = setting("CHECKPOINT_STEPS", 8);
    std::int64_t epoch_ = 0, step_ = 0;  // the next step
};

void train(rtrain::Worker& worker, const std::string& path) {
    const auto place = rtrain::ddp::place_from_environment();
    const bool on_gpu = torch::cuda::is_available();
    const torch::Device device =
        on_gpu ? torch::Device(torch::kCUDA, static_cast<c10::DeviceIndex>(place.local_rank)) : torch::kCPU;
    rtrain::ddp::Group group = rtrain::ddp::process_group_from_environment();
    const Data data = load(path, device);
    Training(worker, group, data, device).run();
    group.shutdown();
}

}  // namespace

int main(int count, char** arguments) {
    std::optional<rtrain::Worker> worker;
    std::string cause;
    try {
        worker.emplace();
        train(*worker, count > 1 ? arguments[1] : "digits.csv");
        return 0;
    } catch (const c10::Error& error) { cause = error.what_without_backtrace(); } catch (const std::exception& error) {
        cause = error.what();
    }
    std::cerr << "digits: " << cause << std::endl;
    if (worker) worker->fail(cause);
    return 1;
}

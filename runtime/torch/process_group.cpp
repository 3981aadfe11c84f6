#include "runtime/torch/process_group.hpp"

#include <ATen/ATen.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include "runtime/torch/held_group.hpp"

namespace rtrain::ddp {
namespace {

constexpr std::size_t broadcast_bytes = std::size_t{250} << 20;  // as in Python's DistributedDataParallel

std::string variable(const char* name, const std::string& otherwise) {
    const char* value = std::getenv(name);
    return value && *value ? value : otherwise;
}

int number(const char* name, int otherwise) {
    const std::string text = variable(name, std::to_string(otherwise));
    std::size_t used = 0;
    int value = -1;
    try {
        value = std::stoi(text, &used);
    } catch (const std::exception&) { used = 0; }
    if (used != text.size() || value < 0) {
        throw std::runtime_error(std::string(name) + " is '" + text +
                                 "' and should be a number; rtrain and torchrun set it, so do not change it");
    }
    return value;
}

c10::intrusive_ptr<c10d::Store> rendezvous(const Place& place, std::chrono::milliseconds timeout) {
    c10d::TCPStoreOptions options;
    options.port = static_cast<std::uint16_t>(number("MASTER_PORT", 29500));
    // torchrun's agent may serve the store already. rtrain sets False: rank 0 serves it.
    options.isServer = place.rank == 0 && variable("TORCHELASTIC_USE_AGENT_STORE", "False") != "True";
    options.numWorkers = static_cast<std::size_t>(place.world_size);
    options.waitWorkers = true;
    options.multiTenant = true;
    options.timeout = timeout;
    const std::string host = variable("MASTER_ADDR", "127.0.0.1");
    try {
        return c10::make_intrusive<c10d::TCPStore>(host, options);
    } catch (const c10::Error& error) {
        throw std::runtime_error("the ranks could not meet at " + host + ":" + std::to_string(options.port) +
                                 " (MASTER_ADDR, " + "MASTER_PORT): " + error.what_without_backtrace() +
                                 "; see `rtrain doctor` for what the nodes can reach");
    }
}

Backend backend_from_environment() {
    const std::string name = variable("RTRAIN_BACKEND", "auto");
    if (name == "nccl") return Backend::nccl;
    if (name == "gloo") return Backend::gloo;
    if (name == "auto") return Backend::automatic;
    throw std::runtime_error("RTRAIN_BACKEND is '" + name +
                             "' and should be auto, gloo or nccl: see `backend` in the job spec");
}

bool use_nccl(Backend backend) {
#ifdef RTRAIN_WITH_NCCL
    return backend == Backend::nccl || (backend == Backend::automatic && at::hasCUDA());
#else
    if (backend == Backend::nccl) {
        throw std::runtime_error(
            "this program was built beside a PyTorch wheel without CUDA: build it with the CUDA wheel for NCCL");
    }
    return false;
#endif
}

}  // namespace

Place place_from_environment() {
    Place place{.rank = number("RANK", 0),
                .world_size = number("WORLD_SIZE", 1),
                .local_rank = number("LOCAL_RANK", 0),
                .local_world_size = number("LOCAL_WORLD_SIZE", 1)};
    if (place.rank >= place.world_size) {
        throw std::runtime_error("RANK is " + std::to_string(place.rank) + " and WORLD_SIZE " +
                                 std::to_string(place.world_size) +
                                 ": ranks count from 0; rtrain and torchrun set both");
    }
    return place;
}

// The prefixes equal those of Python: its default group, group name "0", and the device's backend.
Group process_group_from_environment(const GroupOptions& options) {
    using c10d::PrefixStore;
    const Place place = place_from_environment();
    const bool nccl = use_nccl(options.backend ? *options.backend : backend_from_environment());
    const std::chrono::milliseconds timeout =
        options.timeout.value_or(std::chrono::seconds(number("RTRAIN_BACKEND_TIMEOUT_S", 1800)));
    const auto named = c10::make_intrusive<PrefixStore>("default_pg", rendezvous(place, timeout));
    const auto store = c10::make_intrusive<PrefixStore>("0/", named);
    auto group = c10::make_intrusive<c10d::ProcessGroup>(store, place.rank, place.world_size);
    const auto kind = nccl ? c10d::ProcessGroup::BackendType::NCCL : c10d::ProcessGroup::BackendType::GLOO;
    const auto device = nccl ? c10::DeviceType::CUDA : c10::DeviceType::CPU;
    const auto backend_store = c10::make_intrusive<PrefixStore>(nccl ? "cuda/" : "cpu/", store);
    group->setDefaultBackend(kind);
#ifdef RTRAIN_WITH_NCCL
    const auto backend = nccl ? make_nccl(backend_store, place, timeout) : make_gloo(backend_store, place, timeout);
#else
    const auto backend = make_gloo(backend_store, place, timeout);
#endif
    group->setBackend(device, kind, backend);
    group->setGroupName("0");
    group->setGroupDesc("default_pg");
    return Group(std::make_shared<Group::Held>(Group::Held{std::move(group)}));
}

int Group::rank() const { return held_->group->getRank(); }
int Group::size() const { return held_->group->getSize(); }

void Group::sum(at::Tensor& tensor) const {
    std::vector<at::Tensor> tensors{tensor};
    held_->group->allreduce(tensors)->wait();
}

void Group::broadcast(std::vector<at::Tensor>& tensors) const {
    c10d::broadcast_coalesced(held_->group, tensors, broadcast_bytes, 0);
}

void Group::barrier() const { held_->group->barrier()->wait(); }

void Group::shutdown() { held_->group->shutdown(); }

}  // namespace rtrain::ddp

// The process group of this attempt, from torchrun's environment variables: the same store, keys and backend as
// Python's torch.distributed.init_process_group, so that a C++ rank and a Python rank can be in one group.
//
// LibTorch throws exceptions, and so does runtime/torch: std::runtime_error (c10::Error from LibTorch itself). Their
// texts say what to do.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

namespace at {
class Tensor;
}

namespace rtrain::ddp {

// The place of this process among the ranks. Ranks count from 0.
struct Place {
    int rank = 0;              // among all ranks
    int world_size = 1;        // number of all ranks
    int local_rank = 0;        // among the ranks of this node
    int local_world_size = 1;  // number of ranks on this node
};
// Returns the values of RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE; a single process if they are not set. Throws
// std::runtime_error if one is not a number, or if RANK is not below WORLD_SIZE.
Place place_from_environment();

// The library that carries tensors between the ranks.
enum class Backend {
    automatic,  // nccl when this build has it and a GPU is there, else gloo
    gloo,       // between processors
    nccl,       // between GPUs
};

// The ranks of this attempt. All ranks must call sum, broadcast and barrier in the same order. A rank that does not
// call makes the others fail after the group's timeout. Copies are the same group.
class Group {
  public:
    // Returns this process's rank, from 0.
    int rank() const;
    // Returns how many ranks the group has.
    int size() const;
    // Replaces `tensor` by its sum over the ranks; it has the same shape and type on all.
    void sum(at::Tensor& tensor) const;
    // Replaces `tensors` by those of rank 0; they have the same shapes and types on all.
    void broadcast(std::vector<at::Tensor>& tensors) const;
    // Returns when every rank has called it.
    void barrier() const;
    // Ends the group: the last call, after every rank has arrived here.
    void shutdown();

    struct Held;  // the c10d group; complete in this folder's .cpp files only
    // Takes the c10d group `held`; process_group_from_environment() calls it.
    explicit Group(std::shared_ptr<Held> held) : held_(std::move(held)) {}
    // Returns the c10d group, for the .cpp files of this folder.
    Held& held() const { return *held_; }

  private:
    std::shared_ptr<Held> held_;
};

// Options that are left out are set by the job's `backend` (RTRAIN_BACKEND, RTRAIN_BACKEND_TIMEOUT_S).
struct GroupOptions {
    std::optional<Backend> backend{};                    // default: automatic
    std::optional<std::chrono::milliseconds> timeout{};  // for the rendezvous and for each call; default: 30 minutes
};
// Returns the group of all ranks, which meet at MASTER_ADDR:MASTER_PORT. Call it once per process. Throws
// std::runtime_error if the ranks cannot meet within the timeout, if a variable is wrong, and if nccl is requested but
// missing in this build.
Group process_group_from_environment(const GroupOptions& options = {});

}  // namespace rtrain::ddp

// The process group of this attempt, from torchrun's environment variables: the same store, keys and backend as
// Python's torch.distributed.init_process_group, so that a C++ rank and a Python rank can be in one group.
//
// LibTorch throws; so does runtime/torch: std::runtime_error (c10::Error from LibTorch itself), and the text says what
// to do.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

namespace at {
class Tensor;
}

namespace rtrain::ddp {

struct Place {
    int rank = 0, world_size = 1, local_rank = 0, local_world_size = 1;
};
// From RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE; one process alone when they are not set.
Place place_from_environment();

enum class Backend { automatic, gloo, nccl };  // automatic: nccl when this build has it and a GPU is there, else gloo

class Group {
  public:
    int rank() const;
    int size() const;
    void sum(at::Tensor& tensor) const;                      // over the ranks, in place
    void broadcast(std::vector<at::Tensor>& tensors) const;  // rank 0's values reach all ranks, in place
    void barrier() const;
    void shutdown();  // at the end, when every rank has come here

    struct Held;  // the c10d group; complete in this folder's .cpp files only
    explicit Group(std::shared_ptr<Held> held) : held_(std::move(held)) {}
    Held& held() const { return *held_; }

  private:
    std::shared_ptr<Held> held_;
};

struct GroupOptions {  // what is left out comes from the job's `backend` (RTRAIN_BACKEND, RTRAIN_BACKEND_TIMEOUT_S)
    std::optional<Backend> backend{};                    // else automatic
    std::optional<std::chrono::milliseconds> timeout{};  // else 30 minutes
};
// Meets the other ranks at MASTER_ADDR:MASTER_PORT. Call it once per process.
Group process_group_from_environment(const GroupOptions& options = {});

}  // namespace rtrain::ddp

// A cluster for one command: a head and agents as `rtrain up` starts them, in a directory of their own. The daemons
// watch this process, so they and their workers end when it ends, for whatever reason.
#pragma once

#include <cstdint>
#include <string>

#include "cmd/line/settings.hpp"

namespace rtrain::cmd {

struct OwnClusterWish {
    std::int64_t nodes = 1;
    std::string resources;     // amounts that each agent offers: "CPU=8"; empty: all of the machine
    std::string storage_root;  // directory of cluster://, which is not removed with the cluster
};

class OwnCluster {
  public:
    // Starts the daemons and waits until all nodes are READY. The jobs of this cluster get this process's environment.
    static Result<OwnCluster> start(const OwnClusterWish& wish);
    OwnCluster(OwnCluster&& other) noexcept;
    OwnCluster& operator=(OwnCluster&&) = delete;
    ~OwnCluster();  // ends the daemons and their workers, and removes the directory

    const Place& place() const { return place_; }  // address and credentials of the cluster's head

  private:
    explicit OwnCluster(std::string folder) : folder_(std::move(folder)) {}
    std::string folder_;  // empty: the object was moved from
    Place place_;
};

}  // namespace rtrain::cmd

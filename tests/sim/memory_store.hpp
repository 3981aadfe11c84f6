// The storage path of the simulated cluster, over which the real storage code runs. An object appears whole or not at
// all.
#pragma once

#include <map>
#include <string>

#include "storage/uri/files/store.hpp"

namespace rtrain::sim {

class MemoryStore : public storage::Store {
  public:
    Result<bool> create(const std::string& path, const std::string& bytes) override;
    Status put(const std::string& path, const std::string& bytes) override;
    Result<std::string> get(const std::string& path, std::int64_t most = storage::whole_most) override;
    Status append(const std::string& path, const std::string& bytes) override;
    Status put_file(const std::string& local, const std::string& path, bool may_move,
                    const storage::Progress& progress) override;
    Status get_file(const std::string& path, const std::string& local, const storage::Progress& progress) override;
    Result<std::vector<storage::StoreEntry>> list(const std::string& prefix) override;
    Status remove(const std::string& path) override;
    Status remove_tree(const std::string& path) override;
    bool local() const override { return false; }
    std::string local_path(const std::string&) override { return {}; }

  private:
    std::map<std::string, std::string> objects_;
};

}  // namespace rtrain::sim

// A store over a local one that is not local itself. Counts the files that are fetched.
#pragma once

#include <string>
#include <vector>

#include "storage/uri/files/store.hpp"

namespace rtrain::storage {

// Serves the files of a local store as a store on another machine does.
class FarStore final : public Store {
  public:
    explicit FarStore(Store& near) : near_(near) {}
    Result<bool> create(const std::string& path, const std::string& bytes) override {
        return near_.create(path, bytes);
    }
    Status put(const std::string& path, const std::string& bytes) override { return near_.put(path, bytes); }
    Result<std::string> get(const std::string& path, std::int64_t most) override { return near_.get(path, most); }
    Status append(const std::string& path, const std::string& bytes) override { return near_.append(path, bytes); }
    Status put_file(const std::string& local, const std::string& path, bool may_move,
                    const Progress& progress) override {
        return near_.put_file(local, path, may_move, progress);
    }
    Status get_file(const std::string& path, const std::string& local, const Progress& progress) override {
        ++fetched;
        if (no_room) return Error{ErrorCode::full, "no space left on device", ""};
        return near_.get_file(path, local, progress);
    }
    Result<std::vector<StoreEntry>> list(const std::string& prefix) override { return near_.list(prefix); }
    Status remove(const std::string& path) override { return near_.remove(path); }
    Status remove_tree(const std::string& path) override { return near_.remove_tree(path); }
    bool local() const override { return false; }
    std::string local_path(const std::string& path) override {
        RTRAIN_CHECK(false, path);
        return path;
    }
    int fetched = 0;
    bool no_room = false;  // True to let fetches fail because this machine's disk is full.

  private:
    Store& near_;
};

}  // namespace rtrain::storage

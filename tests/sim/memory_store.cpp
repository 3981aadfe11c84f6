// See memory_store.hpp. Only get_file touches the disk, since hashes are computed from real files.
#include "tests/sim/memory_store.hpp"

#include <fstream>

namespace rtrain::sim {
namespace {

bool below(const std::string& path, const std::string& prefix) {
    return prefix.empty() || path == prefix || path.starts_with(prefix.ends_with('/') ? prefix : prefix + "/");
}

}  // namespace

Result<bool> MemoryStore::create(const std::string& path, const std::string& bytes) {
    return objects_.emplace(path, bytes).second;
}

Status MemoryStore::put(const std::string& path, const std::string& bytes) {
    objects_[path] = bytes;
    return Done{};
}

Result<std::string> MemoryStore::get(const std::string& path, std::int64_t most) {
    const auto entry = objects_.find(path);
    if (entry == objects_.end()) return Error{ErrorCode::not_found, path + " does not exist", ""};
    if (static_cast<std::int64_t>(entry->second.size()) > most) return storage::too_large(path, most);
    return entry->second;
}

Status MemoryStore::append(const std::string& path, const std::string& bytes) {
    objects_[path] += bytes;
    return Done{};
}

Status MemoryStore::put_file(const std::string& local, const std::string& path, bool, const storage::Progress&) {
    std::ifstream in(local, std::ios::binary);
    objects_[path] = std::string(std::istreambuf_iterator<char>(in), {});
    return Done{};
}

Status MemoryStore::get_file(const std::string& path, const std::string& local, const storage::Progress&) {
    const auto entry = objects_.find(path);
    if (entry == objects_.end()) return Error{ErrorCode::not_found, path + " does not exist", ""};
    std::ofstream(local, std::ios::binary) << entry->second;
    return Done{};
}

Result<std::vector<storage::StoreEntry>> MemoryStore::list(const std::string& prefix) {
    std::vector<storage::StoreEntry> entries;
    for (auto at = objects_.lower_bound(prefix); at != objects_.end() && at->first.starts_with(prefix); ++at)
        if (below(at->first, prefix)) entries.push_back({at->first, static_cast<std::int64_t>(at->second.size())});
    return entries;
}

Status MemoryStore::remove(const std::string& path) {
    objects_.erase(path);
    return Done{};
}

Status MemoryStore::remove_tree(const std::string& path) {
    std::erase_if(objects_, [&](const auto& object) { return below(object.first, path); });
    return Done{};
}

}  // namespace rtrain::sim

// See worker_library.hpp.
#include "daemon/agent/workers/worker_library.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

namespace rtrain::agent {
namespace {

namespace fs = std::filesystem;

// Returns 12 for "python3.12"; -1 for another kind of name.
int minor_version(std::string_view name) {
    constexpr std::string_view before = "python3";
    if (!name.starts_with(before)) return -1;
    name.remove_prefix(before.size());
    if (name.empty()) return 0;  // Debian's own packages, for any Python 3
    int minor = -1;
    const char* const end = name.data() + name.size();
    const auto read = std::from_chars(name.data() + 1, end, minor);
    const bool whole = name.front() == '.' && (read.ptr == end || *read.ptr == 't');  // "t": without the global lock
    return read.ec == std::errc() && whole ? minor : -1;
}

std::vector<fs::path> packages_in(const fs::path& library) {
    std::vector<std::pair<int, fs::path>> by_version;
    std::error_code failed;
    for (fs::directory_iterator entry(library, failed), end; !failed && entry != end; entry.increment(failed))
        if (const int minor = minor_version(entry->path().filename().string()); minor >= 0)
            for (const char* kind : {"site-packages", "dist-packages"})
                by_version.emplace_back(minor, entry->path() / kind / "rtrain/_lib");
    std::sort(by_version.begin(), by_version.end(), [](const auto& a, const auto& b) {
        return a.first != b.first ? a.first > b.first : a.second < b.second;
    });
    std::vector<fs::path> packages;
    for (auto& [minor, path] : by_version) packages.push_back(std::move(path));
    return packages;
}

}  // namespace

std::string find_worker_library(const std::string& program) {
    std::error_code failed;
    const fs::path at = fs::canonical(program, failed).parent_path();
    std::vector<fs::path> places{at, at / "../lib", at / "../lib64", at / ".."};
    for (const char* library : {"../lib", "../lib64"})
        for (fs::path& package : packages_in(at / library)) places.push_back(std::move(package));
    for (const fs::path& place : places)
        if (const fs::path file = place / "librtrain_worker.so"; fs::is_regular_file(file, failed))
            return fs::canonical(file, failed).string();
    return {};
}

}  // namespace rtrain::agent

// See storage_access.hpp.
#include "daemon/agent/storage_access.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "daemon/agent/say.hpp"
#include "storage/spec/job.hpp"
#include "storage/uri/descriptor.hpp"

namespace rtrain::agent {
namespace {

bool owned_by_us(const struct stat& info) { return info.st_uid == 0 || info.st_uid == ::geteuid(); }

// Why others could change what the file says; empty: they cannot.
std::string weakness(const std::string& file, const struct stat& info) {
    if (!S_ISREG(info.st_mode)) return "it is no regular file";
    if (!owned_by_us(info)) return "it belongs to uid " + std::to_string(info.st_uid);
    if ((info.st_mode & 022) != 0) return "others than its owner may write it";
    struct stat above{};
    const std::string directory = std::filesystem::path(file).parent_path();
    if (::stat(directory.c_str(), &above) != 0) return directory + ": " + std::strerror(errno);
    if (!owned_by_us(above)) return directory + " belongs to uid " + std::to_string(above.st_uid);
    if ((above.st_mode & 022) != 0 && (above.st_mode & S_ISVTX) == 0)
        return "others than the owner of " + directory + " may exchange it";
    return {};
}

}  // namespace

Result<spec::StorageRules> load_storage_rules(const std::string& file) {
    const auto unusable = [&](const std::string& why) {
        return Error{ErrorCode::unreachable, "the storage rules in " + file + " cannot be used: " + why,
                     "it must belong to root or the agent's user, and be writable by nobody else"};
    };
    const storage::Descriptor opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat info{};
    if (!opened.open() || ::fstat(opened.number(), &info) != 0) return unusable(std::strerror(errno));
    if (const std::string why = weakness(file, info); !why.empty()) return unusable(why);
    std::string text;
    char piece[4096];
    ssize_t got = 0;
    constexpr std::size_t bytes_most = 1 << 20;
    while (text.size() <= bytes_most && (got = ::read(opened.number(), piece, sizeof piece)) > 0)
        text.append(piece, static_cast<std::size_t>(got));
    if (got < 0) return unusable(std::strerror(errno));
    spec::StorageRulesAnswer answer = spec::read_storage_rules(text);
    if (answer.rules) return std::move(*answer.rules);
    std::string all = "the storage rules in " + file + " cannot be used:";
    for (const Problem& problem : answer.problems) all += "\n" + spec::problem_text(problem, file, text);
    return Error{ErrorCode::unreachable, all, "configs/storage-rules.yaml shows every field"};
}

Status may_use_storage(const std::string& rules_file, const spec::StorageUser& who, const std::string& storage_path) {
    if (!rules_file.empty()) {
        const auto rules = load_storage_rules(rules_file);
        return rules ? spec::may_use(*rules, who, storage_path) : Status(rules.error());
    }
    static std::atomic<bool> told{false};
    if (storage_path.starts_with("s3://") && !told.exchange(true))
        warn("without --storage-rules every user may name every s3:// path that this agent's credentials reach");
    return Done{};
}

}  // namespace rtrain::agent

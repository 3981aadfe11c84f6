#include "daemon/agent/named_logs.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "storage/uri/descriptor.hpp"

namespace rtrain::agent {
namespace {

using storage::Descriptor;
constexpr std::size_t files_max = 4096;

bool stream_of_a_rank(const std::string& name) {
    return name.find('-', std::string("rank-").size()) == std::string::npos;
}

std::vector<std::string> names_in(int directory) {
    std::vector<std::string> found;
    const int own = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (own < 0) return found;
    DIR* const stream = ::fdopendir(own);
    if (stream == nullptr) {
        ::close(own);
        return found;
    }
    while (const dirent* entry = ::readdir(stream)) {
        const std::string name = entry->d_name;
        if (name.starts_with("rank-") && !stream_of_a_rank(name) && found.size() < files_max) found.push_back(name);
    }
    ::closedir(stream);
    std::sort(found.begin(), found.end());
    return found;
}

bool written_by(const AttemptGear& gear, int file) {
    struct stat facts{};
    if (::fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_nlink != 1 || facts.st_size == 0)
        return false;
    const uid_t user = gear.user.uid >= 0 ? static_cast<uid_t>(gear.user.uid) : ::geteuid();
    return facts.st_uid == user && facts.st_size <= gear.job.logs_max_bytes;
}

}  // namespace

Status copy_named_logs(const AttemptGear& gear, const std::string& scratch, const std::string& to) {
    const std::string place = scratch + "/" + named_logs_folder;
    const Descriptor folder(::open(place.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!folder.open()) return Done{};  // the usual case: no worker wrote any
    for (const std::string& name : names_in(folder.number())) {
        const Descriptor file(::openat(folder.number(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
        if (!file.open() || !written_by(gear, file.number())) continue;
        const std::string opened = "/proc/self/fd/" + std::to_string(file.number());
        if (Status copied = gear.store->put_file(opened, to + "/" + name, false, {}); !copied) return copied;
    }
    return Done{};
}

}  // namespace rtrain::agent

#include "daemon/agent/delivery/named_logs.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include "daemon/agent/workers/user_rights.hpp"
#include "storage/uri/files/tree.hpp"

namespace rtrain::agent {
namespace {

using storage::Descriptor;
constexpr std::size_t files_max = 4096;

bool stream_of_a_rank(const std::string& name) {
    return name.find('-', std::string("rank-").size()) == std::string::npos;
}

bool written_by(const AttemptContext& context, int file) {
    struct stat facts{};
    if (::fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_nlink != 1 || facts.st_size == 0)
        return false;
    const uid_t user = context.user.uid >= 0 ? static_cast<uid_t>(context.user.uid) : ::geteuid();
    return facts.st_uid == user && facts.st_size <= context.job.logs_max_bytes;
}

// Opens the folder and lists its files, with the rights of the run's user.
Result<Descriptor> open_folder(const UserRights& rights, const std::string& scratch, std::vector<std::string>& names) {
    const auto top = storage::open_top(scratch);
    if (!top) return top.error();
    const UserRights::Worn worn(rights);
    if (!worn.taken()) return worn.taken().error();
    auto folder = storage::open_beneath(*top, named_logs_folder, O_RDONLY | O_DIRECTORY);
    if (!folder) return folder;
    auto all = storage::names_in(*folder);
    if (!all) return all.error();
    for (std::string& name : *all)
        if (name.starts_with("rank-") && !stream_of_a_rank(name) && names.size() < files_max)
            names.push_back(std::move(name));
    return folder;
}

Result<Descriptor> open_log(const UserRights& rights, const Descriptor& folder, const std::string& name) {
    const UserRights::Worn worn(rights);
    if (!worn.taken()) return worn.taken().error();
    return storage::open_beneath(folder, name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
}

}  // namespace

Status copy_named_logs(const AttemptContext& context, const std::string& scratch, const std::string& to) {
    const UserRights rights(context.user);
    std::vector<std::string> names;
    const auto folder = open_folder(rights, scratch, names);
    if (!folder) return Done{};  // the usual case: no worker wrote such a file
    for (const std::string& name : names) {
        const auto file = open_log(rights, *folder, name);
        if (!file || !written_by(context, file->number())) continue;
        const std::string opened = "/proc/self/fd/" + std::to_string(file->number());
        if (Status copied = context.store->put_file(opened, to + "/" + name, false, {}); !copied) return copied;
    }
    return Done{};
}

}  // namespace rtrain::agent

// See machine_root.hpp.
#include "cmd/daemons/machine_root.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

#include "storage/uri/files/beneath.hpp"

namespace rtrain::cmd {
namespace {

constexpr int directory = O_RDONLY | O_DIRECTORY;

std::string relative(const std::string& path) {
    const std::size_t first = path.find_first_not_of('/');
    return first == path.npos ? "" : path.substr(first);
}

}  // namespace

Result<MachineRoot> MachineRoot::open(const std::string& at) {
    Result<storage::Descriptor> top = storage::open_top(at);
    if (!top) return top.error();
    std::string name = storage::shown(*top, "");
    if (name == "/") name.clear();
    return MachineRoot(std::move(*top), std::move(name));
}

Result<storage::Descriptor> MachineRoot::open_path(const std::string& path, int flags) const {
    const std::string below = relative(path);
    if (below.empty()) return storage::open_beneath(top_, "", flags | O_DIRECTORY);
    return storage::open_in_root(top_, below, flags);
}

Result<struct stat> MachineRoot::look_at(const std::string& path) const {
    Result<storage::Descriptor> opened = open_path(path, O_PATH);
    if (!opened) return opened.error();
    struct stat facts{};
    if (::fstat(opened->number(), &facts) == 0) return facts;
    return Error{
        .code = ErrorCode::io, .message = "looking at " + shown(path) + ": " + std::strerror(errno), .next = ""};
}

Result<std::string> MachineRoot::resolved(const std::string& path) const {
    Result<storage::Descriptor> opened = open_path(path, O_PATH);
    if (!opened) return opened.error();
    const std::string whole = storage::shown(*opened, "");
    return whole.starts_with(name_ + "/") ? whole.substr(name_.size()) : path;
}

Result<storage::Descriptor> MachineRoot::make_directory(const std::string& path) const {
    Result<storage::Descriptor> there = open_path(path, directory);
    if (there || there.error().code != ErrorCode::not_found) return there;
    const std::size_t slash = path.rfind('/');
    Result<storage::Descriptor> parent = make_directory(path.substr(0, slash));
    if (!parent) return parent;
    const std::string name = path.substr(slash + 1);
    if (::mkdirat(parent->number(), name.c_str(), 0755) != 0 && errno != EEXIST)
        return Error{
            .code = ErrorCode::io, .message = "making " + shown(path) + ": " + std::strerror(errno), .next = ""};
    return storage::open_beneath(*parent, name, directory);
}

}  // namespace rtrain::cmd

// See unit_file.hpp.
#include "cmd/daemons/unit_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "storage/uri/files/beneath.hpp"

namespace rtrain::cmd {
namespace {

constexpr const char* mark = "# rtrain's ";  // beginning of each unit that rtrain writes
constexpr std::int64_t unit_bytes_most = 1 << 20;
constexpr mode_t for_all_to_read = 0644;

// Returns the content of the file; nullopt if it does not exist.
Result<std::optional<std::string>> content(const storage::Descriptor& directory, const std::string& name,
                                           const std::string& path) {
    struct stat seen{};
    if (::fstatat(directory.number(), name.c_str(), &seen, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == ENOENT) return std::optional<std::string>();
        return Error{.code = ErrorCode::io, .message = "looking at " + path + ": " + std::strerror(errno), .next = ""};
    }
    if (S_ISLNK(seen.st_mode))
        return Error{.code = ErrorCode::conflict,
                     .message = path + " is a link: the unit is masked, or stands elsewhere",
                     .next = "systemctl unmask " + name + ", or remove the link first"};
    if (!S_ISREG(seen.st_mode))
        return Error{.code = ErrorCode::conflict, .message = path + " is no file", .next = "move it away first"};
    Result<storage::Descriptor> file = storage::open_beneath(directory, name, O_RDONLY | O_NONBLOCK);
    if (!file) return file.error();
    Result<std::string> text = storage::read_opened(*file, path, unit_bytes_most);
    if (!text) return text.error();
    return std::optional(std::move(*text));
}

}  // namespace

Result<UnitFile> UnitFile::prepare(const MachineRoot& root, const std::string& directory, const std::string& name,
                                   const std::string& text) {
    UnitFile unit;
    unit.path_ = root.shown(directory + "/" + name);
    if (std::any_of(text.begin(), text.end(), [](char c) { return c == '\0' || c == '\r'; }))
        return Error{.code = ErrorCode::invalid,
                     .message = "a flag has a control character, which no line of a unit may have",
                     .next = ""};
    Result<storage::Descriptor> folder = root.make_directory(directory);
    if (!folder) return folder.error();
    Result<std::optional<std::string>> before = content(*folder, name, unit.path_);
    if (!before) return before.error();
    if (before->has_value() && **before == text) return unit;
    if (before->has_value() && !(*before)->empty() && !(*before)->starts_with(mark))
        return Error{.code = ErrorCode::conflict,
                     .message = unit.path_ + " is there, and was not written by rtrain",
                     .next = "move it away first"};
    auto aside = storage::disk::Aside::begin({std::move(*folder), name}, unit.path_);
    if (!aside) return aside.error();
    if (Status written = storage::disk::write_all(aside->number(), text, unit.path_); !written) return written.error();
    if (::fchmod(aside->number(), for_all_to_read) != 0)
        return Error{.code = ErrorCode::io,
                     .message = "writing " + unit.path_ + ": making it readable: " + std::strerror(errno),
                     .next = ""};
    if (Status synced = storage::disk::sync(aside->number(), unit.path_); !synced) return synced.error();
    unit.change_ = before->has_value() ? Change::replaced : Change::created;
    unit.aside_.emplace(std::move(*aside));
    return unit;
}

Result<Change> UnitFile::put() {
    if (!aside_) return Change::none;
    if (Status put = aside_->replace(); !put) return put.error();
    aside_.reset();
    return change_;
}

}  // namespace rtrain::cmd

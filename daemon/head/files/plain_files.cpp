// See plain_files.hpp.
#include "daemon/head/files/plain_files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <memory>
#include <utility>

namespace rtrain::head {
namespace {

constexpr std::size_t text_bytes_max = 16 << 20;
constexpr std::size_t depth_most = 64;

using Directory = std::unique_ptr<DIR, int (*)(DIR*)>;

Directory opened(storage::Descriptor directory) {
    const int own = ::fcntl(directory.number(), F_DUPFD_CLOEXEC, 0);
    DIR* stream = own < 0 ? nullptr : ::fdopendir(own);
    if (stream == nullptr && own >= 0) ::close(own);
    return {stream, ::closedir};
}

// Adds the plain files beneath `prefix`. Files that vanish meanwhile or cannot be read are left out.
void add_files(const storage::Descriptor& top, const std::string& prefix, std::size_t depth,
               std::vector<FoundFile>& into) {
    auto directory = storage::open_beneath(top, prefix, O_RDONLY | O_DIRECTORY);
    if (!directory || depth > depth_most) return;
    const Directory entries = opened(std::move(*directory));
    std::vector<std::string> below;
    while (const dirent* entry = entries ? ::readdir(entries.get()) : nullptr) {
        const std::string name = entry->d_name;
        if (name == "." || name == "..") continue;
        const std::string path = prefix.empty() ? name : prefix + "/" + name;
        struct stat facts{};
        if (::fstatat(::dirfd(entries.get()), entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) != 0) continue;
        if (S_ISDIR(facts.st_mode)) below.push_back(path);
        if (S_ISREG(facts.st_mode)) into.push_back({path, static_cast<std::uint64_t>(facts.st_size)});
    }
    for (const std::string& path : below) add_files(top, path, depth + 1, into);
}

}  // namespace

Result<storage::Descriptor> open_plain(const storage::Descriptor& top, const std::string& path) {
    auto file = storage::open_beneath(top, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (!file) return file.error();
    struct stat facts{}, above{};
    if (::fstat(file->number(), &facts) != 0 || ::fstat(top.number(), &above) != 0 || !S_ISREG(facts.st_mode))
        return Error{ErrorCode::not_found, path + " is no file", ""};
    if (facts.st_nlink > 1 && facts.st_uid != above.st_uid)
        return Error{ErrorCode::unauthorised, path + " is another name of a file of somebody else",
                     "put a copy in its place"};
    return file;
}

std::optional<std::string> text_of(const storage::Descriptor& file) {
    struct stat facts{};
    if (::fstat(file.number(), &facts) != 0) return std::nullopt;
    if (static_cast<std::size_t>(facts.st_size) > text_bytes_max) return std::nullopt;
    std::string text(static_cast<std::size_t>(facts.st_size), '\0');
    std::size_t done = 0;
    while (done < text.size()) {
        const ssize_t got = ::pread(file.number(), text.data() + done, text.size() - done, static_cast<off_t>(done));
        if (got <= 0) return std::nullopt;
        done += static_cast<std::size_t>(got);
    }
    return text;
}

Result<std::vector<FoundFile>> files_beneath(const storage::Descriptor& top, const std::string& prefix) {
    auto directory = storage::open_beneath(top, prefix, O_RDONLY | O_DIRECTORY);
    if (!directory) return directory.error();
    std::vector<FoundFile> files;
    add_files(top, prefix, 0, files);
    return files;
}

}  // namespace rtrain::head

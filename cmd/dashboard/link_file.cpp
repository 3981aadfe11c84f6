// See link_file.hpp.
#include "cmd/dashboard/link_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/descriptor.hpp"
#include "base/percent.hpp"
#include "base/write_all.hpp"

namespace rtrain::cmd {
namespace {

// Returns the first of $XDG_RUNTIME_DIR and $TMPDIR that is an existing absolute directory; /tmp if neither is.
std::string directory_for_secrets() {
    for (const char* name : {"XDG_RUNTIME_DIR", "TMPDIR"}) {
        const char* value = std::getenv(name);
        struct stat facts{};
        if (value && value[0] == '/' && ::stat(value, &facts) == 0 && S_ISDIR(facts.st_mode)) return value;
    }
    return "/tmp";
}

Error not_made(const std::string& path) {
    return {ErrorCode::io, "making " + path + ": " + std::strerror(errno), "open the printed link in your browser"};
}

}  // namespace

Result<LinkFile> LinkFile::make(const std::string& link) {
    std::string folder = directory_for_secrets() + "/rtrain-XXXXXX";
    if (!::mkdtemp(folder.data())) return not_made(folder);
    LinkFile out(folder);
    storage::Descriptor file(::open(out.path().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file.open()) return not_made(out.path());
    const std::string page =
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>rtrain</title>"
        "<meta name=\"referrer\" content=\"no-referrer\"><meta http-equiv=\"refresh\" content=\"0;url=" +
        link + "\"><p><a href=\"" + link + "\">Open the page</a></p></html>\n";
    errno = storage::write_all(file.number(), page);
    if (errno != 0 || file.close() != 0) return not_made(out.path());
    return out;
}

LinkFile::LinkFile(LinkFile&& other) noexcept : folder_(std::exchange(other.folder_, "")) {}

std::string LinkFile::address() const { return "file://" + storage::percent_encoded(path(), storage::Slash::kept); }

void LinkFile::remove() {
    if (folder_.empty()) return;
    ::unlink(path().c_str());
    ::rmdir(folder_.c_str());
    folder_.clear();
}

}  // namespace rtrain::cmd

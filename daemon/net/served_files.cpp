// See served_files.hpp.
#include "daemon/net/served_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/write_all.hpp"
#include "daemon/net/session.hpp"

namespace rtrain::net {
namespace {

constexpr std::uint64_t piece_most = 128u << 10;

std::string directory_of(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

Error disk_error(const std::string& path, int why) {
    const bool full = why == ENOSPC || why == EDQUOT;
    return {full ? ErrorCode::full : ErrorCode::io, "writing an upload to " + path + ": " + std::strerror(why),
            full ? "make room on that file system, then send it again" : ""};
}

}  // namespace

OpenFile::~OpenFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

void remove_file(const std::string& path) { (void)::unlink(path.c_str()); }

std::string BodyFile::place() const { return directory_of(path_); }

bool BodyFile::may_write(std::uint64_t bytes) {
    if (may_write_) fault_ = may_write_(bytes);
    return !fault_;
}

void BodyFile::open(std::uint64_t length) {
    if (!may_write(length)) return;
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (descriptor_ < 0) fault_ = error_response(disk_error(path_, errno), 0);
}

void BodyFile::write(const std::string& piece) {
    if (!may_write(piece.size())) return;
    if (const int error = storage::write_all(descriptor_, piece); error != 0)
        fault_ = error_response(disk_error(path_, error), 0);
}

void BodyFile::keep() {
    if (::close(std::exchange(descriptor_, -1)) == 0) return;
    fault_ = error_response(disk_error(path_, errno), 0);
    ::unlink(path_.c_str());
}

BodyFile::~BodyFile() {
    if (descriptor_ < 0) return;
    struct stat facts{};
    const bool ours = fstat(descriptor_, &facts) == 0 && S_ISREG(facts.st_mode);  // Refuses devices.
    ::close(descriptor_);
    if (ours) ::unlink(path_.c_str());
}

AnswerFile::AnswerFile(const Response& response)
    : path_(response.file), place_(response.place), opened_(response.opened), at_(response.file_offset) {}

AnswerFile::~AnswerFile() = default;

std::string AnswerFile::place() const { return place_.empty() ? directory_of(path_) : place_; }

void AnswerFile::open() {
    if (!opened_) opened_ = std::make_shared<OpenFile>(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat facts{};
    there = opened_->descriptor() >= 0 && fstat(opened_->descriptor(), &facts) == 0 && S_ISREG(facts.st_mode);
    if (!there) return;
    const auto size = static_cast<std::uint64_t>(facts.st_size);
    at_ = std::min(at_, size);
    left = size - at_;
}

void AnswerFile::next() {
    piece.resize(static_cast<std::size_t>(std::min(piece_most, left)));
    const ssize_t got = ::pread(opened_->descriptor(), piece.data(), piece.size(), static_cast<off_t>(at_));
    piece.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    at_ += piece.size();
    left -= piece.size();
}

}  // namespace rtrain::net

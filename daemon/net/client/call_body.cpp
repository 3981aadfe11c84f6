// See call_body.hpp.
#include "daemon/net/client/call_body.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/write_all.hpp"

namespace rtrain::net {
namespace {

constexpr std::size_t piece_size = 128u << 10;
constexpr std::size_t memory_limit = 256u << 20;

Error disk_error(const std::string& doing, const std::string& path, int why = errno) {
    return {why == ENOSPC || why == EDQUOT ? ErrorCode::full : ErrorCode::io,
            doing + " " + path + ": " + std::strerror(why), ""};
}

bool succeeded(int status) { return status >= 200 && status < 300; }

}  // namespace

FileHandle& FileHandle::operator=(FileHandle&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
}
FileHandle::~FileHandle() {
    if (descriptor_ >= 0) ::close(descriptor_);
}
int FileHandle::release() { return std::exchange(descriptor_, -1); }

Result<SentBody> SentBody::open(const Call& call) {
    SentBody body;
    body.call_ = &call;
    body.length_ = call.body.size();
    if (call.body_file.empty()) return body;
    body.file_ = FileHandle(::open(call.body_file.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat facts{};
    if (body.file_.get() < 0 || fstat(body.file_.get(), &facts) != 0) return disk_error("reading", call.body_file);
    const auto size = static_cast<std::uint64_t>(facts.st_size);
    if (!S_ISREG(facts.st_mode) || call.body_file_offset > size)
        return Error{ErrorCode::invalid,
                     call.body_file + " is no file with more than " + std::to_string(call.body_file_offset) + " bytes",
                     ""};
    body.length_ = size - call.body_file_offset;
    return body;
}

Result<std::string> SentBody::next() {
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(piece_size, length_ - done_));
    std::string piece;
    if (file_.get() < 0) {
        piece = call_->body.substr(done_, size);
    } else if (size > 0) {
        piece.resize(size);
        const ssize_t got =
            ::pread(file_.get(), piece.data(), size, static_cast<off_t>(call_->body_file_offset + done_));
        if (got < 0) return disk_error("reading", call_->body_file);
        if (got == 0)
            return Error{ErrorCode::io, call_->body_file + " became shorter while it was sent",
                         "do not change it meanwhile"};
        piece.resize(static_cast<std::size_t>(got));
    }
    done_ += piece.size();
    return piece;
}

Response response_of(const MessageHead& head) {
    Response response{.status = head.status, .content_type = {}};
    for (const auto& [name, value] : head.headers) response.headers.emplace(name, value);
    if (auto type = head.headers.find("content-type"); type != head.headers.end()) response.content_type = type->second;
    return response;
}

AnswerBody::~AnswerBody() {
    if (file_.get() >= 0 && !saved_) ::unlink(call_.save_to.c_str());  // half a file is useless
}

// A file is created only for a success. The body of a refusal is kept in memory.
Status AnswerBody::begin(const MessageHead& head) {
    if (call_.save_to.empty() || !succeeded(head.status)) return Done{};
    file_ = FileHandle(::open(call_.save_to.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (file_.get() < 0) return disk_error("writing", call_.save_to);
    return Done{};
}

bool AnswerBody::take(int status, std::string_view piece) {
    if (file_.get() >= 0) {
        const int error = storage::write_all(file_.get(), piece);
        if (error != 0) failure_ = disk_error("writing", call_.save_to, error);
        stopped_ = error != 0;
        return error == 0;
    }
    if (call_.on_piece && succeeded(status)) {
        stopped_ = !call_.on_piece(piece);
        return !stopped_;
    }
    if (text_.size() + piece.size() > memory_limit) {
        failure_ = Error{ErrorCode::full, "the answer to " + call_.target + " is larger than 256 MiB", ""};
        stopped_ = true;
        return false;
    }
    text_ += piece;
    return true;
}

Result<Response> AnswerBody::finish(const MessageHead& head) {
    Response response = response_of(head);
    response.body = std::move(text_);
    if (file_.get() >= 0) {
        saved_ = true;
        response.file = call_.save_to;
        if (::close(file_.release()) != 0) return disk_error("writing", call_.save_to);
    }
    return response;
}

}  // namespace rtrain::net

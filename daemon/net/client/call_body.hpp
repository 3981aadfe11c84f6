// The two bodies of a call: the one that is sent (from memory or a file), and the answer's (to memory, a file or the
// caller).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "daemon/net/client.hpp"
#include "daemon/net/http/http_parser.hpp"

namespace rtrain::net {

class FileHandle {
  public:
    FileHandle() = default;
    explicit FileHandle(int descriptor) : descriptor_(descriptor) {}
    FileHandle(FileHandle&& other) noexcept : descriptor_(other.release()) {}
    FileHandle& operator=(FileHandle&& other) noexcept;
    ~FileHandle();
    int get() const { return descriptor_; }
    int release();

  private:
    int descriptor_ = -1;
};

Response response_of(const MessageHead& head);  // without a body

class SentBody {
  public:
    static Result<SentBody> open(const Call& call);
    std::uint64_t length() const { return length_; }
    Result<std::string> next();  // the next piece; empty at the end

  private:
    const Call* call_ = nullptr;
    FileHandle file_;
    std::uint64_t length_ = 0, done_ = 0;
};

class AnswerBody {
  public:
    explicit AnswerBody(const Call& call) : call_(call) {}
    ~AnswerBody();
    Status begin(const MessageHead& head);
    bool take(int status, std::string_view piece);  // false: no further piece is wanted
    bool stopped() const { return stopped_; }
    const std::optional<Error>& failure() const { return failure_; }
    Result<Response> finish(const MessageHead& head);

  private:
    const Call& call_;
    std::string text_;
    FileHandle file_;
    bool saved_ = false, stopped_ = false;
    std::optional<Error> failure_;
};

}  // namespace rtrain::net

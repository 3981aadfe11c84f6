// The files of a request: the file that a body is written to while it arrives, and the file that an answer is sent
// from. All functions here may wait for a disk, including the destructors, so they run on the server's threads for
// files.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "daemon/net/server.hpp"

namespace rtrain::net {

void remove_file(const std::string& path);

class BodyFile {
  public:
    using MayWrite = std::function<std::optional<Response>(std::uint64_t bytes)>;  // Admission::may_write
    BodyFile(std::string path, MayWrite may_write) : path_(std::move(path)), may_write_(std::move(may_write)) {}
    ~BodyFile();  // removes the file unless keep() was called
    BodyFile(const BodyFile&) = delete;
    BodyFile& operator=(const BodyFile&) = delete;

    void open(std::uint64_t length);
    void write(const std::string& piece);
    void keep();  // The file is complete, and the handler owns its path now.
    const std::optional<Response>& fault() const { return fault_; }  // the refusal of the first step that failed
    std::string place() const;                                       // the directory of the file

  private:
    const std::string path_;
    bool may_write(std::uint64_t bytes);  // false: see fault()

    const MayWrite may_write_;
    int descriptor_ = -1;
    std::optional<Response> fault_;
};

class AnswerFile {
  public:
    explicit AnswerFile(const Response& response);
    ~AnswerFile();
    AnswerFile(const AnswerFile&) = delete;
    AnswerFile& operator=(const AnswerFile&) = delete;

    void open();  // afterwards `left` is the number of bytes to send; `there` is false unless it is a plain file
    void next();  // reads `piece`; empty if the file became shorter
    std::string place() const;
    bool there = false;
    std::uint64_t left = 0;
    std::string piece;

  private:
    const std::string path_, place_;
    std::shared_ptr<OpenFile> opened_;
    std::uint64_t at_ = 0;
};

// The body of an answer that is generated while it is sent.
class MadeBody {
  public:
    explicit MadeBody(Response& response) : make_(std::move(response.pieces)), place_(response.place) {}
    void next() { piece = make_(); }
    const std::string& place() const { return place_; }
    std::optional<MadePiece> piece;

  private:
    const std::function<std::optional<MadePiece>()> make_;
    const std::string place_;
};

}  // namespace rtrain::net

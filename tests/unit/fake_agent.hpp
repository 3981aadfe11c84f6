// An agent of one test: a Unix socket that accepts a worker's connection and exchanges frames with it. Each function
// waits 10 s at most and throws then, so that a fault ends the test.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>

#include "runtime/worker/frames/frames.hpp"
#include "tests/unit/folder.hpp"

namespace rtrain::worker {

class FakeAgent {
  public:
    FakeAgent() : path_(folder_.path + "/agent.sock") {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
        listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
            ::listen(listener_, 8) != 0)
            throw std::runtime_error("cannot listen on " + path_);
    }
    ~FakeAgent() {
        hang_up();
        ::close(listener_);
    }
    FakeAgent(const FakeAgent&) = delete;
    FakeAgent& operator=(const FakeAgent&) = delete;

    const std::string& path() const { return path_; }
    void accept() {
        await(listener_);
        hang_up();
        worker_ = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        frames_ = {};
    }
    void hang_up() {
        if (worker_ >= 0) ::close(worker_);
        worker_ = -1;
    }
    FromWorker receive() {
        for (;;) {
            if (auto body = frames_.next().value()) return decode_from_worker(*body).value();
            await(worker_);
            std::array<char, 4096> bytes;
            const ssize_t size = ::recv(worker_, bytes.data(), bytes.size(), 0);
            if (size <= 0) throw std::runtime_error("the worker has closed its connection");
            frames_.add({bytes.data(), static_cast<std::size_t>(size)});
        }
    }
    // Returns the next message of this kind. Other messages, such as heartbeats, are skipped.
    template <class Message>
    Message receive() {
        for (;;) {
            FromWorker message = receive();
            if (auto* wanted = std::get_if<Message>(&message)) return std::move(*wanted);
        }
    }
    void send(const FromAgent& message) {
        const std::string frame = encode(message);
        if (::send(worker_, frame.data(), frame.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(frame.size()))
            throw std::runtime_error("the worker does not read");
    }
    void send_with(const FromAgent& message, int descriptor) {
        std::string frame = encode(message);
        iovec bytes{frame.data(), frame.size()};
        alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> beside{};
        msghdr header{};
        header.msg_iov = &bytes;
        header.msg_iovlen = 1;
        header.msg_control = beside.data();
        header.msg_controllen = beside.size();
        cmsghdr* extra = CMSG_FIRSTHDR(&header);
        extra->cmsg_level = SOL_SOCKET;
        extra->cmsg_type = SCM_RIGHTS;
        extra->cmsg_len = CMSG_LEN(sizeof(int));
        std::memcpy(CMSG_DATA(extra), &descriptor, sizeof descriptor);
        if (::sendmsg(worker_, &header, MSG_NOSIGNAL) < 0) throw std::runtime_error("the worker does not read");
    }

  private:
    static void await(int socket) {
        pollfd watched{socket, POLLIN, 0};
        if (::poll(&watched, 1, 10'000) != 1) throw std::runtime_error("nothing arrived within 10 s");
    }

    rtrain::Folder folder_;
    std::string path_;
    int listener_ = -1, worker_ = -1;
    FrameReader frames_;
};

}  // namespace rtrain::worker

// The loop's handles of one request: its responder, and the stream that it may become. They hold the server state, so
// that they can post to the session's I/O thread at any time. They refer to the session itself weakly.
#include <utility>

#include "daemon/net/session.hpp"

namespace rtrain::net {
namespace {

constexpr std::size_t stream_limit = 4u << 20;

struct Line {  // the connection between a handle and its session
    std::shared_ptr<ServerState> server;
    IoThread& io_thread;
    std::weak_ptr<Session> session;
    template <class Task>
    void post(Task task) const {
        asio::post(io_thread.io, [weak = session, task = std::move(task)]() mutable {
            if (auto session = weak.lock()) task(*session);
        });
    }
};

class StreamHandle final : public Stream {
  public:
    StreamHandle(Line line, std::shared_ptr<StreamShared> shared)
        : line_(std::move(line)), shared_(std::move(shared)) {}
    ~StreamHandle() override { StreamHandle::close(); }

    bool write(std::string chunk) override {
        bool lags = false;
        {
            std::lock_guard lock(shared_->mutex);
            if (shared_->gone || shared_->ended) return false;
            lags = shared_->waiting_bytes > 0 && shared_->waiting_bytes + chunk.size() > stream_limit;
            if (lags) {
                shared_->gone = true;
            } else if (!chunk.empty()) {
                shared_->waiting_bytes += chunk.size();
                shared_->waiting.push_back(std::move(chunk));
                if (std::exchange(shared_->pump_posted, true)) return true;
            }
        }
        line_.post([shared = shared_, lags](Session& session) {
            lags ? session.cut_stream(shared) : session.pump_stream(shared);
        });
        return !lags;
    }

    void close() override {
        {
            std::lock_guard lock(shared_->mutex);
            if (shared_->gone || std::exchange(shared_->ended, true)) return;
        }
        line_.post([shared = shared_](Session& session) { session.pump_stream(shared); });
    }

    void cut() override {
        {
            std::lock_guard lock(shared_->mutex);
            if (shared_->gone) return;
            shared_->ended = true;
            shared_->waiting.clear();
        }
        line_.post([shared = shared_](Session& session) { session.end_stream(shared); });
    }

    void on_closed(std::function<void()> task) override {
        if (!shared_->closed_reported) {
            shared_->on_closed = std::move(task);
            return;
        }
        line_.server->loop.post([alive = line_.server->alive, task = std::move(task)] {
            if (*alive) task();
        });
    }

    std::size_t waiting() const override {
        const std::lock_guard lock(shared_->mutex);
        return shared_->waiting_bytes;
    }

  private:
    Line line_;
    std::shared_ptr<StreamShared> shared_;
};

class ResponderHandle final : public Responder {
  public:
    ResponderHandle(Line line, std::uint64_t exchange, Peer peer, bool wants_socket)
        : line_(std::move(line)), exchange_(exchange), peer_(std::move(peer)), wants_socket_(wants_socket) {}
    ~ResponderHandle() override {
        if (!used_)
            ResponderHandle::send(error_response({ErrorCode::internal, "the request was dropped without an answer",
                                                  "the daemon may have ended, its log says why; rtrain head status"},
                                                 0));
    }

    void send(Response response) override {
        if (std::exchange(used_, true)) return;
        line_.post([exchange = exchange_, response = std::move(response)](Session& session) mutable {
            session.answer(exchange, std::move(response));
        });
    }

    std::shared_ptr<Stream> stream(std::string content_type) override {
        auto shared = std::make_shared<StreamShared>();
        auto handle = std::make_shared<StreamHandle>(line_, shared);
        if (std::exchange(used_, true)) return handle;
        line_.post([exchange = exchange_, type = std::move(content_type), shared](Session& session) {
            session.open_stream(exchange, type, shared);
        });
        return handle;
    }

    std::shared_ptr<Socket> accept_socket(SocketEvents events) override {
        if (!wants_socket_ || std::exchange(used_, true)) return nullptr;
        auto [handle, socket] = make_socket(line_.io_thread.io,
                                            {.loop = line_.server->loop,
                                             .alive = line_.server->alive,
                                             .peer = peer_,
                                             .io_thread = &line_.io_thread,
                                             .readers = &line_.server->readers,
                                             .keeper = line_.server},
                                            std::move(events));
        asio::post(line_.io_thread.io, [weak = line_.session, exchange = exchange_, socket = std::move(socket)] {
            if (auto session = weak.lock()) return session->open_socket(exchange, socket);
            drop_socket(socket, "the connection broke off");
        });
        return handle;
    }

    bool wants_socket() const override { return wants_socket_; }

  private:
    Line line_;
    std::uint64_t exchange_;
    Peer peer_;
    bool wants_socket_;
    bool used_ = false;
};

}  // namespace

std::shared_ptr<Responder> make_responder(const std::shared_ptr<ServerState>& server, IoThread& io_thread,
                                          std::weak_ptr<Session> session, std::uint64_t exchange, const Peer& peer,
                                          bool wants_socket) {
    return std::make_shared<ResponderHandle>(Line{server, io_thread, std::move(session)}, exchange, peer, wants_socket);
}

}  // namespace rtrain::net

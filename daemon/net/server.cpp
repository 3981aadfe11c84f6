// Listening, I/O threads, and the end of a server. See server.hpp, server_state.hpp, session.hpp.
#include "daemon/net/server.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "daemon/net/loop/port_owner.hpp"
#include "daemon/net/loop/side_thread.hpp"
#include "daemon/net/server_state.hpp"
#include "daemon/net/session.hpp"
#include "daemon/net/tls.hpp"

namespace rtrain::net {
namespace {

using Acceptor = asio::basic_socket_acceptor<tcp, asio::io_context::executor_type>;
constexpr int backlog = 4'096;  // limited by the system (net.core.somaxconn)
constexpr auto drain_time = std::chrono::milliseconds(1'000);
constexpr std::size_t closing_most = 128;
constexpr auto accept_pause = std::chrono::milliseconds(100);

class TlsServer final : public Server {
  public:
    TlsServer(Loop& loop, ServerOptions options, Handler handler, TlsContext tls)
        : state_(std::make_shared<ServerState>(loop, std::move(options), std::move(handler))), tls_(std::move(tls)) {
        for (std::uint32_t i = 0; i < std::max(1u, state_->options.threads); ++i) {
            state_->io_threads.push_back(std::make_unique<IoThread>());
            // The first socket of an io_context opens its epoll, which throws if no descriptor is free.
            const Tcp opens_epoll(state_->io_threads.back()->io);
        }
        acceptor_ = std::make_unique<Acceptor>(state_->io_threads.front()->io);
        pause_ = std::make_unique<Timer>(state_->io_threads.front()->io);
    }
    ~TlsServer() override;

    Status bind();
    void start();
    std::uint16_t port() const override { return port_; }
    void replace_identity(TlsIdentity identity) override;

  private:
    void accept();
    void accepted(Tcp socket, IoThread& io_thread);

    std::shared_ptr<ServerState> state_;
    std::mutex tls_mutex_;
    TlsContext tls_;
    std::unique_ptr<Acceptor> acceptor_;
    std::unique_ptr<Timer> pause_;
    std::uint16_t port_ = 0;
    std::size_t next_io_thread_ = 0;
    bool closing_ = false;  // used by the first I/O thread
};

Error cannot_listen(const ServerOptions& options, const error_code& why) {
    const std::string where = options.host + ":" + std::to_string(options.port);
    if (why != asio::error::address_in_use)
        return {ErrorCode::io, "listening on " + where + ": " + why.message(),
                why == asio::error::access_denied ? "ports below 1024 need root: choose another with --port"
                                                  : "give an address of this machine with --host"};
    const std::string owner = port_owner(options.port);
    return {ErrorCode::conflict,
            "port " + std::to_string(options.port) + " on " + options.host + " is in use" +
                (owner.empty() ? std::string(" by a process of another user") : " by " + owner),
            "stop that process, or choose another port with --port"};
}

Status TlsServer::bind() {
    const ServerOptions& options = state_->options;
    error_code error;
    const auto address = asio::ip::make_address(options.host == "localhost" ? "127.0.0.1" : options.host, error);
    if (error)
        return Error{ErrorCode::usage, "the address to listen on must be an IP address, not \"" + options.host + "\"",
                     "give 127.0.0.1, 0.0.0.0, or an address of this machine"};
    const tcp::endpoint endpoint(address, options.port);
    acceptor_->open(endpoint.protocol(), error);
    if (!error) acceptor_->set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_->bind(endpoint, error);
    if (!error) acceptor_->listen(backlog, error);
    if (error) return cannot_listen(options, error);
    port_ = acceptor_->local_endpoint(error).port();
    return Done{};
}

void TlsServer::start() {
    for (auto& io_thread : state_->io_threads) {
        io_thread->open.emplace(asio::make_work_guard(io_thread->io));
        io_thread->thread = side_thread(ThreadPriority::behind_loop, [io_thread = io_thread.get()] {
            io_thread->io.run();
            io_thread->ended.set_value();
        });
    }
    asio::post(state_->io_threads.front()->io, [this] { accept(); });
}

void TlsServer::accept() {
    if (closing_) return;
    IoThread& io_thread = *state_->io_threads[next_io_thread_++ % state_->io_threads.size()];
    acceptor_->async_accept(io_thread.io, [this, &io_thread](error_code error, Tcp socket) {
        if (closing_) return;
        if (!error) accepted(std::move(socket), io_thread);
        if (!error || error == asio::error::connection_aborted) return accept();
        pause_->expires_after(accept_pause);  // No descriptor is free: connections that end give some back.
        pause_->async_wait([this](error_code) { accept(); });
    });
}

void TlsServer::accepted(Tcp socket, IoThread& io_thread) {
    error_code error;
    const tcp::endpoint peer = socket.remote_endpoint(error);
    // The table closes older connections for new ones. This bounds those that are still closing.
    if (error || state_->connections >= state_->options.connections_max + closing_most) return;
    TlsContext tls;
    {
        std::lock_guard lock(tls_mutex_);
        tls = tls_;
    }
    auto session = std::make_shared<Session>(state_, io_thread, std::move(socket), tls, text_of(peer));
    session->enter(peer.address().to_string());
    asio::post(io_thread.io, [session = std::move(session), &io_thread] {
        io_thread.draining ? session->close() : session->start();
    });
}

void TlsServer::replace_identity(TlsIdentity identity) {
    Result<TlsContext> fresh = server_context(identity, state_->options.require_client_certificate);
    RTRAIN_CHECK(fresh.ok(), fresh.ok() ? "" : fresh.error().message);
    std::lock_guard lock(tls_mutex_);
    tls_ = std::move(*fresh);
}

TlsServer::~TlsServer() {
    *state_->alive = false;
    if (!state_->io_threads.front()->thread.joinable()) return;  // The server never listened.
    asio::post(state_->io_threads.front()->io, [this] {
        closing_ = true;
        error_code ignored;
        acceptor_->close(ignored);
        pause_->cancel();
    });
    for (auto& io_thread : state_->io_threads)
        asio::post(io_thread->io, [io_thread = io_thread.get()] {
            io_thread->draining = true;
            for (IoThreadMember* member : std::set<IoThreadMember*>(io_thread->members)) member->drain();
            io_thread->open.reset();
        });
    const auto deadline = std::chrono::steady_clock::now() + drain_time;
    for (auto& io_thread : state_->io_threads) {
        if (io_thread->ended.get_future().wait_until(deadline) != std::future_status::ready) io_thread->io.stop();
        io_thread->thread.join();
        for (IoThreadMember* member : std::set<IoThreadMember*>(io_thread->members)) member->cut();
    }
    state_->files.stop();
    state_->readers.stop();
    state_->handler.reset();
}

}  // namespace

Result<std::unique_ptr<Server>> Server::listen(Loop& loop, ServerOptions options, Handler handler) {
    Result<TlsContext> tls = server_context(options.identity, options.require_client_certificate);
    if (!tls) return tls.error();
    auto server = std::make_unique<TlsServer>(loop, std::move(options), std::move(handler), std::move(*tls));
    if (Status bound = server->bind(); !bound) return bound.error();
    server->start();
    return std::unique_ptr<Server>(std::move(server));
}

}  // namespace rtrain::net

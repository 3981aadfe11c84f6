// One connection of the server, from the TLS handshake to its end. It reads requests one after the other, passes each
// to the loop, and writes the loop's answer. It belongs to one I/O thread. README.md lists its states.
#pragma once

#include <deque>
#include <mutex>

#include "daemon/net/http/http_parser.hpp"
#include "daemon/net/served_files.hpp"
#include "daemon/net/server_state.hpp"
#include "daemon/net/tls.hpp"
#include "daemon/net/websocket.hpp"
#include "daemon/net/wire.hpp"

namespace rtrain::net {

// A stream, shared by its handle on the loop and its session.
struct StreamShared {
    std::mutex mutex;
    std::deque<std::string> waiting;
    std::size_t waiting_bytes = 0;  // includes the bytes that are being written
    bool pump_posted = false;
    bool ended = false;  // the owner has closed it: waiting bytes are still written
    bool gone = false;   // the peer has closed the connection, or was cut off
    // Used by the loop's thread:
    std::function<void()> on_closed;
    bool closed_reported = false;
};

class Session final : public IoThreadMember, public std::enable_shared_from_this<Session> {
  public:
    Session(const std::shared_ptr<ServerState>& server, IoThread& io_thread, Tcp socket, const TlsContext& tls,
            std::string address);
    ~Session() override;

    // adds the connection to the server's table; callable from any thread, before `start`
    void enter(const std::string& address);
    void start();
    void drain() override;
    void cut() override { close(); }
    void close();

    // Called by handles on the loop and posted to the I/O thread. `exchange` identifies the request; late calls do
    // nothing.
    void answer(std::uint64_t exchange, Response response);
    void open_stream(std::uint64_t exchange, const std::string& content_type, std::shared_ptr<StreamShared> stream);
    void pump_stream(const std::shared_ptr<StreamShared>& stream);
    void end_stream(const std::shared_ptr<StreamShared>& stream);  // drops the waiting bytes
    void cut_stream(const std::shared_ptr<StreamShared>& stream);
    void open_socket(std::uint64_t exchange, const std::shared_ptr<WebSocket>& socket);

  private:
    // linger: further bytes of the peer are read and dropped, so that it receives the answer. disk: another thread
    // creates or closes the body's file, and nothing is read.
    enum class State { handshake, head, body, disk, waiting, writing, streaming, linger, closed };
    using Step = void (Session::*)();

    // session.cpp: in
    void secured(error_code error);
    void begin_exchange();
    void read();
    void arrived(error_code error, std::size_t bytes);
    void parse();
    void on_head_parsed();
    bool admit();
    bool fits();
    void too_many(const char* what);
    bool take_body(std::string_view piece);
    // session_files.cpp: bodies and answers that are files, on the server's threads for these
    void on_files(const std::string& place, Loop::Task work, Step then);
    void open_upload();
    void upload_opened();
    void read_upload();
    void write_upload();
    void upload_written();
    void finish_upload();
    void upload_kept();
    void open_file();
    void file_opened();
    void read_file_piece();
    void send_file_piece();
    void make_piece();
    void send_made_piece();
    void drop_upload();
    void drop_file();
    void refuse(Response refusal);
    void dispatch();
    void linger();
    // session_answer.cpp: out
    void write(std::string bytes, Step then);
    void write_head(const Response& response, std::uint64_t length);
    void write_head_of_made();
    void write_body();
    void end_exchange();
    void stream_piece();
    void release(std::shared_ptr<StreamShared> stream);

    ServerState& server_;
    const std::weak_ptr<ServerState> weak_server_;  // for handles, which own the server state
    IoThread& io_thread_;
    std::shared_ptr<ConnectionTicket> ticket_;
    Peer peer_;
    std::unique_ptr<Wire> wire_;
    Watchdog watchdog_;
    State state_ = State::handshake;
    std::string inbox_, in_, out_;  // inbox_: buffer of a read; in_: bytes that are not parsed yet
    bool reading_ = false, writing_ = false, draining_ = false;

    std::uint64_t exchange_ = 0;
    std::unique_ptr<HttpParser> parser_;
    Request request_;
    std::optional<Response> body_fault_;
    std::shared_ptr<BodyFile> upload_;  // target of a streamed body
    BodyFile::MayWrite may_write_;
    std::string to_write_;  // A part of the body. The thread that writes does not use it.
    bool upload_busy_ = false;
    std::uint64_t body_bytes_ = 0, body_limit_ = 0, lingered_bytes_ = 0;
    bool of_stranger_ = false;  // of_stranger_: the request that is being read has no caller yet
    bool close_after_ = false;

    Response response_;
    std::shared_ptr<AnswerFile> file_;
    std::shared_ptr<MadeBody> made_body_;
    std::shared_ptr<StreamShared> stream_;
    std::size_t stream_writing_ = 0;
};

std::string as_chunk(const std::string& data);            // for an answer of unknown length; `data` is not empty
Response error_response(const Error& error, int status);  // status 0: derived from the error's code
// The loop's handle of one request.
std::shared_ptr<Responder> make_responder(const std::shared_ptr<ServerState>& server, IoThread& io_thread,
                                          std::weak_ptr<Session> session, std::uint64_t exchange, const Peer& peer,
                                          bool wants_socket);

}  // namespace rtrain::net

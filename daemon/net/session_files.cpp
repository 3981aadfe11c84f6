// Bodies that are written to files while they arrive, and answers that are files. A thread of the server creates,
// writes, reads and closes the files. The I/O thread serves other connections meanwhile, and continues with this one
// afterwards.
#include <utility>

#include "daemon/net/session.hpp"

namespace rtrain::net {
namespace {

constexpr std::size_t early_limit = 256u << 10;      // bytes of requests that arrive while an answer is made
constexpr std::size_t piece_wanted = 128u << 10;     // bytes that are written at once
constexpr std::size_t unwritten_limit = 256u << 10;  // beyond it, reading pauses until the disk has taken some

}  // namespace

// Runs `work` on a thread for files at `place`, then `then` on the I/O thread.
void Session::on_files(const std::string& place, Loop::Task work, Step then) {
    auto server = weak_server_.lock();
    if (!server) return close();
    PlacePools& files = server->files;
    files.add(place, [server = std::move(server), io_thread = &io_thread_, self = shared_from_this(),
                      work = std::move(work), then]() mutable {
        work();
        work = nullptr;  // Its file may be destroyed with it, on this thread.
        asio::post(io_thread->io, [self = std::move(self), then] { ((*self).*then)(); });
    });
}

void Session::open_upload() {
    state_ = State::disk;
    watchdog_.never();
    upload_ = std::make_shared<BodyFile>(request_.body_file, std::move(may_write_));
    on_files(
        upload_->place(), [file = upload_, length = parser_->head().content_length.value_or(0)] { file->open(length); },
        &Session::upload_opened);
}

void Session::upload_opened() {
    if (state_ != State::disk) return;
    if (upload_->fault()) return refuse(*upload_->fault());
    state_ = State::body;
    watchdog_.within(std::chrono::milliseconds(server_.options.idle_timeout_ms));
    if (parser_->head().has_body() && request_.header("expect") == "100-continue" && in_.empty())
        return write("HTTP/1.1 100 Continue\r\n\r\n", &Session::parse);
    parse();
}

// All received bytes are parsed, and the body has not ended.
void Session::read_upload() {
    if (to_write_.size() >= piece_wanted && !upload_busy_) write_upload();
    if (to_write_.size() < unwritten_limit) return read();
    watchdog_.never();  // The connection waits for the disk, not for the peer.
}

void Session::write_upload() {
    upload_busy_ = true;
    on_files(
        upload_->place(), [file = upload_, piece = std::exchange(to_write_, {})] { file->write(piece); },
        &Session::upload_written);
}

void Session::upload_written() {
    upload_busy_ = false;
    if (state_ != State::body && state_ != State::disk) return;
    if (upload_->fault()) return refuse(*upload_->fault());
    if (state_ == State::disk) return finish_upload();
    watchdog_.within(std::chrono::milliseconds(server_.options.idle_timeout_ms));
    read_upload();
}

// The last byte has arrived.
void Session::finish_upload() {
    state_ = State::disk;
    watchdog_.never();
    if (upload_busy_) return;
    if (!to_write_.empty()) return write_upload();
    on_files(upload_->place(), [file = upload_] { file->keep(); }, &Session::upload_kept);
}

void Session::upload_kept() {
    if (state_ != State::disk) {  // The connection ended meanwhile, so no handler owns the file.
        if (auto server = weak_server_.lock())
            server->files.add("", [path = request_.body_file] { remove_file(path); });
        return;
    }
    if (upload_->fault()) return refuse(*upload_->fault());
    drop_upload();
    dispatch();
}

// A body without an owner is destroyed on a thread for files.
void Session::drop_upload() {
    to_write_.clear();
    if (!upload_) return;
    const std::string place = upload_->place();
    server_.files.add(place, [file = std::exchange(upload_, nullptr)] {});
}

void Session::drop_file() {
    if (made_body_) {
        const std::string place = made_body_->place();
        server_.files.add(place, [body = std::exchange(made_body_, nullptr)] {});
    }
    if (!file_) return;
    const std::string place = file_->place();
    server_.files.add(place, [file = std::exchange(file_, nullptr)] {});
}

void Session::open_file() {
    file_ = std::make_shared<AnswerFile>(response_);
    response_.opened.reset();
    on_files(file_->place(), [file = file_] { file->open(); }, &Session::file_opened);
}

void Session::file_opened() {
    if (state_ != State::writing) return;
    if (!file_->there) {
        drop_file();
        response_ = error_response({ErrorCode::not_found, "the file of the answer is gone", ""}, 0);
    }
    write_head(response_, file_ ? file_->left : response_.body.size());
}

void Session::read_file_piece() {
    if (file_->left == 0) return end_exchange();
    if (response_.permitted && !response_.permitted()) return close();
    watchdog_.never();
    on_files(file_->place(), [file = file_] { file->next(); }, &Session::send_file_piece);
}

void Session::send_file_piece() {
    if (state_ != State::writing) return;
    // The file is shorter than announced: only closing the connection shows that to the peer.
    if (file_->piece.empty()) return close();
    write(std::exchange(file_->piece, {}), &Session::read_file_piece);
}

void Session::make_piece() {
    if (made_body_->piece && made_body_->piece->last) return write("0\r\n\r\n", &Session::end_exchange);
    if (response_.permitted && !response_.permitted()) return close();
    if (in_.size() >= early_limit) return close();
    watchdog_.never();
    read();  // Pieces may be empty for long: only a read shows that the peer has closed the connection.
    on_files(made_body_->place(), [body = made_body_] { body->next(); }, &Session::send_made_piece);
}

void Session::send_made_piece() {
    if (state_ != State::writing) return;
    if (!made_body_->piece) return close();
    if (made_body_->piece->bytes.empty()) return make_piece();
    write(as_chunk(std::exchange(made_body_->piece->bytes, {})), &Session::make_piece);
}

}  // namespace rtrain::net

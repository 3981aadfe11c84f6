// Loads libcurl by dlopen. Types and numbers are those of its header; its functions are looked up by name.

#include "storage/http/http.hpp"

#include <curl/curl.h>
#include <dlfcn.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace rtrain::storage::http {
namespace {

struct Library {
    decltype(&::curl_global_init) global_init = nullptr;
    decltype(&::curl_easy_init) easy_init = nullptr;
    CURLcode (*easy_setopt)(CURL*, CURLoption, ...) = nullptr;
    CURLcode (*easy_getinfo)(CURL*, CURLINFO, ...) = nullptr;
    decltype(&::curl_easy_perform) easy_perform = nullptr;
    decltype(&::curl_easy_reset) easy_reset = nullptr;
    decltype(&::curl_easy_cleanup) easy_cleanup = nullptr;
    decltype(&::curl_easy_strerror) easy_strerror = nullptr;
    decltype(&::curl_slist_append) slist_append = nullptr;
    decltype(&::curl_slist_free_all) slist_free_all = nullptr;
    std::string missing;  // why libcurl could not be loaded; empty: it was loaded
};

template <class Function>
void look_up(void* handle, const char* name, Function& function, std::string& missing) {
    void* symbol = ::dlsym(handle, name);
    if (symbol == nullptr) missing = std::string("it has no ") + name;
    std::memcpy(&function, &symbol, sizeof symbol);
}

Library load() {
    Library curl;
    void* handle = nullptr;
    for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4"})
        if (handle == nullptr) handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        const char* why = ::dlerror();
        curl.missing = why != nullptr ? why : "it cannot be loaded";
        return curl;
    }
    look_up(handle, "curl_global_init", curl.global_init, curl.missing);
    look_up(handle, "curl_easy_init", curl.easy_init, curl.missing);
    look_up(handle, "curl_easy_setopt", curl.easy_setopt, curl.missing);
    look_up(handle, "curl_easy_getinfo", curl.easy_getinfo, curl.missing);
    look_up(handle, "curl_easy_perform", curl.easy_perform, curl.missing);
    look_up(handle, "curl_easy_reset", curl.easy_reset, curl.missing);
    look_up(handle, "curl_easy_cleanup", curl.easy_cleanup, curl.missing);
    look_up(handle, "curl_easy_strerror", curl.easy_strerror, curl.missing);
    look_up(handle, "curl_slist_append", curl.slist_append, curl.missing);
    look_up(handle, "curl_slist_free_all", curl.slist_free_all, curl.missing);
    if (curl.missing.empty() && curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) curl.missing = "it does not start";
    return curl;
}

const Library& library() {
    static const Library curl = load();  // lives until the process ends
    return curl;
}

using Clock = std::chrono::steady_clock;
constexpr Clock::rep never = 0;
std::atomic<Clock::rep> end_at{never};

int go_on(void*, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {  // libcurl calls this about once a second.
    const Clock::rep end = end_at.load();
    return end != never && Clock::now().time_since_epoch().count() >= end ? 1 : 0;
}

struct Exchange {
    CURL* handle = nullptr;
    const Request* request = nullptr;
    Reply* reply = nullptr;
    std::int64_t sent = 0;
    std::string read_failure;
};

std::size_t take_header(char* bytes, std::size_t size, std::size_t count, void* context) {
    auto& exchange = *static_cast<Exchange*>(context);
    const std::string line(bytes, size * count);
    const auto colon = line.find(':');
    if (line.starts_with("HTTP/")) exchange.reply->headers.clear();
    if (colon == line.npos) return size * count;
    std::string name = line.substr(0, colon);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const auto begin = line.find_first_not_of(" \t", colon + 1), end = line.find_last_not_of(" \t\r\n");
    exchange.reply->headers[name] = begin == line.npos || end < begin ? "" : line.substr(begin, end - begin + 1);
    return size * count;
}

std::size_t take_body(char* bytes, std::size_t size, std::size_t count, void* context) {
    auto& exchange = *static_cast<Exchange*>(context);
    const std::string_view piece(bytes, size * count);
    long status = 0;
    library().easy_getinfo(exchange.handle, CURLINFO_RESPONSE_CODE, &status);
    if (!exchange.request->sink || status < 200 || status >= 300) {
        exchange.reply->body += piece;
        return piece.size();
    }
    exchange.reply->stopped = !exchange.request->sink(piece);
    return exchange.reply->stopped ? 0 : piece.size();
}

std::size_t give_body(char* room, std::size_t size, std::size_t count, void* context) {
    auto& exchange = *static_cast<Exchange*>(context);
    const Body& body = exchange.request->body;
    const auto bytes = static_cast<std::size_t>(
        std::min<std::int64_t>(static_cast<std::int64_t>(size * count), body.bytes - exchange.sent));
    if (bytes == 0) return 0;
    if (body.descriptor < 0) {
        std::memcpy(room, body.memory.data() + exchange.sent, bytes);
        exchange.sent += static_cast<std::int64_t>(bytes);
        return bytes;
    }
    ssize_t got = 0;
    do got = ::pread(body.descriptor, room, bytes, static_cast<off_t>(body.offset + exchange.sent));
    while (got < 0 && errno == EINTR);
    if (got <= 0) {
        exchange.read_failure = got < 0 ? std::strerror(errno) : "the file became shorter while it was sent";
        return CURL_READFUNC_ABORT;
    }
    exchange.sent += got;
    return static_cast<std::size_t>(got);
}

// libcurl sends the body again from this offset, because the server had closed the connection.
int go_to(void* context, curl_off_t offset, int origin) {
    if (origin != SEEK_SET) return CURL_SEEKFUNC_CANTSEEK;
    static_cast<Exchange*>(context)->sent = offset;
    return CURL_SEEKFUNC_OK;
}

// Opens sockets with CLOEXEC, so that workers started by the agent do not inherit them.
curl_socket_t own_socket(void*, curlsocktype, curl_sockaddr* address) {
    return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

// Blocks SIGPIPE in this thread. Without it, writing to a connection that the server has closed would end a program
// that does not ignore SIGPIPE.
class NoPipeSignal {
  public:
    NoPipeSignal() {
        ::sigemptyset(&pipe_);
        ::sigaddset(&pipe_, SIGPIPE);
        ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
    }
    ~NoPipeSignal() {
        if (::sigismember(&before_, SIGPIPE) == 1) return;
        const timespec at_once{};
        while (::sigtimedwait(&pipe_, nullptr, &at_once) == SIGPIPE) continue;
        ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    NoPipeSignal(const NoPipeSignal&) = delete;

  private:
    sigset_t pipe_{}, before_{};
};

bool about_certificates(CURLcode code) {
    return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE;
}

class Curl final : public Connections {
  public:
    ~Curl() override {
        for (CURL* handle : idle_) library().easy_cleanup(handle);
    }

    Reply send(const Request& request) override {
        Reply reply;
        CURL* handle = take();
        if (handle == nullptr) return {.trouble = "there is no memory for a connection"};
        Exchange exchange{.handle = handle, .request = &request, .reply = &reply};
        char words[CURL_ERROR_SIZE] = "";
        curl_slist* headers = nullptr;
        for (const auto& [name, value] : request.headers)
            headers = library().slist_append(headers, (name + (value.empty() ? ";" : ": " + value)).c_str());
        // Removes headers that libcurl adds. Without "expect" it does not wait for "100 Continue", which some servers
        // never send.
        for (const char* line : {"expect:", "content-type:", "accept:"})
            headers = library().slist_append(headers, line);
        set_up(exchange, headers, words);
        const CURLcode code = [&] {
            const NoPipeSignal quiet;
            return library().easy_perform(handle);
        }();
        long status = 0;
        library().easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
        reply.status = static_cast<int>(status);
        if (code != CURLE_OK && !reply.stopped) {
            reply.trouble = words[0] != '\0' ? words : library().easy_strerror(code);
            if (code == CURLE_ABORTED_BY_CALLBACK) reply.trouble = "this program ends";
            if (!exchange.read_failure.empty()) reply.trouble = exchange.read_failure;
            reply.untrusted = about_certificates(code);
        }
        library().slist_free_all(headers);
        give_back(handle);
        return reply;
    }

  private:
    static void set_up(Exchange& exchange, curl_slist* headers, char* words) {
        const Request& request = *exchange.request;
        const auto set = [&](CURLoption option, auto value) { library().easy_setopt(exchange.handle, option, value); };
        set(CURLOPT_URL, request.url.c_str());
        set(CURLOPT_PATH_AS_IS, 1L);
        set(CURLOPT_NOSIGNAL, 1L);
        set(CURLOPT_OPENSOCKETFUNCTION, &own_socket);
        set(CURLOPT_ERRORBUFFER, words);
        set(CURLOPT_NOPROGRESS, 0L);
        set(CURLOPT_XFERINFOFUNCTION, &go_on);
        set(CURLOPT_CONNECTTIMEOUT, static_cast<long>(request.connect_s));
        set(CURLOPT_LOW_SPEED_LIMIT, 1L);
        set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(request.stall_s));
        set(CURLOPT_TCP_KEEPALIVE, 1L);
        set(CURLOPT_BUFFERSIZE, 256L << 10);
        set(CURLOPT_USERAGENT, "rtrain/" RTRAIN_VERSION);
        set(CURLOPT_HTTPHEADER, headers);
        set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
        set(CURLOPT_HEADERFUNCTION, &take_header);
        set(CURLOPT_HEADERDATA, static_cast<void*>(&exchange));
        set(CURLOPT_WRITEFUNCTION, &take_body);
        set(CURLOPT_WRITEDATA, static_cast<void*>(&exchange));
        if (!request.ca_bundle.empty()) set(CURLOPT_CAINFO, request.ca_bundle.c_str());
        if (request.method == "HEAD") return set(CURLOPT_NOBODY, 1L);
        if (request.method == "PUT" || request.method == "POST") {
            set(CURLOPT_UPLOAD, 1L);
            set(CURLOPT_UPLOAD_BUFFERSIZE, 512L << 10);
            set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.body.bytes));
            set(CURLOPT_READFUNCTION, &give_body);
            set(CURLOPT_READDATA, static_cast<void*>(&exchange));
            set(CURLOPT_SEEKFUNCTION, &go_to);
            set(CURLOPT_SEEKDATA, static_cast<void*>(&exchange));
        }
        set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
    }

    CURL* take() {
        const std::lock_guard lock(mutex_);
        if (idle_.empty()) return library().easy_init();
        CURL* handle = idle_.back();
        idle_.pop_back();
        return handle;
    }

    void give_back(CURL* handle) {
        // The connection stays open after the handle's options are reset, for the next request.
        library().easy_reset(handle);
        const std::lock_guard lock(mutex_);
        if (idle_.size() < kept) return idle_.push_back(handle);
        library().easy_cleanup(handle);
    }

    static constexpr std::size_t kept = 8;
    std::mutex mutex_;
    std::vector<CURL*> idle_;
};

}  // namespace

void end_requests_at(std::optional<Clock::time_point> when) {
    end_at = when ? when->time_since_epoch().count() : never;
}

bool ending() { return end_at.load() != never; }

Result<std::unique_ptr<Connections>> Connections::open(const std::string& what) {
    if (!library().missing.empty())
        return Error{ErrorCode::not_found, what + " needs libcurl, which is not on this machine: " + library().missing,
                     "install it: the package is libcurl4 (Debian, Ubuntu) or libcurl (Fedora, Alma, Rocky)"};
    return std::unique_ptr<Connections>(new Curl);
}

}  // namespace rtrain::storage::http

// Admits requests before their bodies are read, and chooses the place of an upload (api.hpp). Runs on the server's
// threads, so it uses only thread-safe parts.
#include <chrono>
#include <future>
#include <optional>
#include <utility>

#include "daemon/head/files/stored_files.hpp"
#include "daemon/head/files/uploads.hpp"
#include "daemon/head/requests/node_reach.hpp"
#include "daemon/head/routes/access.hpp"
#include "daemon/head/routes/api.hpp"

namespace rtrain::head {
namespace {

// the most bytes of a body without authentication: a join, with a token and a signing request
constexpr std::uint64_t stranger_body_max = 64 << 10;

bool is_blob(const net::Request& request) { return request.path.starts_with("/v1/blobs/"); }

bool streamed(const net::Request& request) {
    return request.method == "PUT" &&
           (request.path.starts_with("/v1/blobs/") || request.path.starts_with("/v1/storage/"));
}

// Returns the party for which the caller's connections are counted: one node, one admin, or one user with all tokens
// and all runs.
net::Admission admission_for(const Caller& caller) {
    if (caller.role == Role::node) return {.caller = "node " + caller.node, .room = net::Room::reserved};
    if (caller.role == Role::admin) return {.caller = "admin " + caller.user, .room = net::Room::reserved};
    if (caller.role == Role::metrics) return {.caller = "metrics " + caller.user};
    return {.caller = "user " + caller.user};
}

// Returns headers for every answer. Caches must not store it, its content type is exact, and other sites cannot embed
// it. A file of a run that a browser opens as a page cannot run scripts.
std::map<std::string, std::string> answer_headers() {
    return {{"cache-control", "no-store"},
            {"content-security-policy", "default-src 'none'; frame-ancestors 'none'; sandbox"},
            {"cross-origin-resource-policy", "same-origin"},
            {"referrer-policy", "no-referrer"},
            {"x-content-type-options", "nosniff"}};
}

}  // namespace

// Reserves the bytes of a running upload for its user: the declared length, or the received bytes if there are more. So
// concurrent uploads cannot exceed the user's limit together.
class CountedUpload {
  public:
    CountedUpload(UserBytes& bytes, std::int64_t KeptBytes::* place) : bytes_(bytes), place_(place) {}
    CountedUpload(const CountedUpload&) = delete;
    CountedUpload& operator=(const CountedUpload&) = delete;
    ~CountedUpload() {
        if (reserved_ > 0) bytes_.add(user_, Kept::uploads, -kept(reserved_));
    }
    // sets the user for whom the upload counts; empty: it counts for no user
    void belongs_to(std::string user) { user_ = std::move(user); }
    // Called first with the upload's declared length, and then with each piece.
    Status may_write(std::uint64_t bytes) {
        if (user_.empty()) return Done{};
        if (!std::exchange(length_seen_, true)) return reserve(static_cast<std::int64_t>(bytes));
        arrived_ += static_cast<std::int64_t>(bytes);
        return arrived_ > reserved_ ? reserve(arrived_ - reserved_) : Status(Done{});
    }

  private:
    KeptBytes kept(std::int64_t bytes) const {
        KeptBytes out;
        out.*place_ = bytes;
        return out;
    }
    Status reserve(std::int64_t more) {
        const Status may = bytes_.reserve(user_, Kept::uploads, kept(more));
        if (may) reserved_ += more;
        return may;
    }

    UserBytes& bytes_;
    std::int64_t KeptBytes::* const place_;
    std::string user_;
    bool length_seen_ = false;
    std::int64_t arrived_ = 0, reserved_ = 0;
};

namespace {

Error no_longer_opens() {
    return {ErrorCode::unauthorised, "the token of this upload was revoked or has expired, or its run has ended",
            "nothing of it was kept; an admin makes a new token: rtrain token create"};
}

}  // namespace

// Asks the loop whether it refuses an upload, since only the loop has the records of nodes' runs and of users' limits.
// Called on a thread for files. Waits for some seconds at most, since a head that ends does not answer.
std::optional<net::Response> Api::refused_by_loop(const Caller& caller, const std::string& path,
                                                  const std::shared_ptr<CountedUpload>& counted, std::uint64_t bytes) {
    if (caller.role != Role::node) return std::nullopt;
    const auto promised = std::make_shared<std::promise<std::optional<net::Response>>>();
    auto refused = promised->get_future();
    uses_.background.post([&uses = uses_, caller, path, counted, bytes, promised] {
        auto refused = refuse_unreached(uses.view, caller, path, Touch::write);
        if (!refused) counted->belongs_to(uses.stored.owner_of(path));
        const Status may = refused ? Status(Done{}) : counted->may_write(bytes);
        promised->set_value(may ? std::move(refused) : refusal(may.error()));
    });
    if (refused.wait_for(std::chrono::seconds(5)) == std::future_status::ready) return refused.get();
    return refusal({ErrorCode::unreachable, "the head was too busy to say whether this may be written",
                    "send it again in some seconds"});
}

// Chooses where an upload is written. `path`: target below cluster://; empty for a blob.
net::Admission Api::upload_of(const net::Request& request, const Caller& caller, const std::string& path) {
    net::Admission admission = admission_for(caller);
    auto place = upload_place(uses_.options, request);
    if (!place) {
        admission.refusal = refusal(place.error());
        return admission;
    }
    admission.body_file = std::move(*place);
    const Upload kind = is_blob(request) ? Upload::blob : Upload::storage;
    const auto counted =
        std::make_shared<CountedUpload>(uses_.bytes, kind == Upload::blob ? &KeptBytes::files : &KeptBytes::storage);
    if (kind == Upload::blob && caller.role != Role::node) counted->belongs_to(caller.user);
    admission.held = counted;
    admission.may_write = [this, kind, path, caller, counted,
                           asked = path.empty()](std::uint64_t bytes) mutable -> std::optional<net::Response> {
        if (!uses_.credentials.still_opens(caller, wall_ms())) return refusal_of_stranger(no_longer_opens());
        if (!std::exchange(asked, true)) {
            if (auto refused = refused_by_loop(caller, path, counted, bytes)) return refused;
        } else if (const Status may = counted->may_write(bytes); !may) {
            return refusal(may.error());
        }
        const Status room = upload_room(uses_.options, kind, bytes);
        if (!room) return refusal(room.error());
        return std::nullopt;
    };
    return admission;
}

// Admits a request before its body is read, on the server's threads: authenticates the caller, checks the role, and
// chooses the place of an upload. The loop repeats both checks, and checks the owner of the run. For an upload to
// cluster:// it does so before the first byte is read.
net::Admission Api::admission_of(const net::Request& request) {
    const Found match = find_route(request);
    const Admitted admitted = admit(uses_.credentials, request, match);
    if (const auto* not_admitted = std::get_if<NotAdmitted>(&admitted)) return {.refusal = refusal_of(*not_admitted)};
    const Access access = match.route->access;
    if (access == Access::anyone || access == Access::browser) return {.body_limit = stranger_body_max};
    const Caller* caller = std::get_if<Caller>(&admitted);
    if (role_suffices(*caller, match.route->access)) {
        if (!streamed(request)) return admission_for(*caller);
        return upload_of(request, *caller, is_blob(request) ? "" : match.variables.at("path"));
    }
    net::Admission admission = admission_for(*caller);
    admission.refusal = refusal(forbidden(*caller, *match.route));
    return admission;
}

net::ServerOptions Api::server_options(const Identity& identity, std::size_t connections_max) {
    net::ServerOptions options;
    options.host = uses_.options.host;
    options.port = uses_.options.port;
    options.identity = identity.tls();
    options.connections_max = connections_max;
    options.headers = answer_headers();
    options.admit = [this](const net::Request& request) -> net::Admission {
        try {
            return admission_of(request);
        } catch (const std::exception& wrong) {
            return {.refusal = refusal(net::thrown(wrong, "reading a request's head"))};
        }
    };
    return options;
}

}  // namespace rtrain::head

// See audit.hpp.
#include "daemon/head/requests/audit.hpp"

#include <memory>
#include <string_view>
#include <utility>

#include "daemon/security/security.hpp"

namespace rtrain::head {
namespace {

constexpr std::size_t text_at_most = 300;

// Converts text from a request to one line of ASCII, cut at 300 characters.
std::string plain(std::string text) {
    if (text.size() > text_at_most) text.resize(text_at_most);
    for (char& c : text)
        if (c < 0x20 || c > 0x7e) c = '?';
    return text;
}

// Returns true for a dry run. Only a route with the parameter dry_run changes nothing then.
bool tries_only(const Exchange& exchange, const Route& route) {
    return exchange.asked("dry_run") && (" " + std::string(route.query) + " ").find(" dry_run ") != std::string::npos;
}

std::optional<RunId> run_of(const Exchange& exchange) {
    const auto named = exchange.variables.find("run");
    if (named == exchange.variables.end()) return std::nullopt;
    const auto id = find_run(exchange.view, named->second);
    return id ? std::optional(*id) : std::nullopt;
}

// Returns true if the request needs an audit row. Files that agents write for their attempts need no row, nor do values
// of a run's processes or its user, of which there may be any number.
bool changes(const Exchange& exchange, const Route& route, const std::optional<RunId>& run) {
    const std::string_view method = route.method, pattern = route.pattern;
    if (method == "GET" || method == "HEAD" || pattern == "/v1/plan" || tries_only(exchange, route)) return false;
    if (exchange.caller.role == Role::node) return pattern == "/v1/certificate";
    const bool value = pattern.find("/values/") != std::string_view::npos;
    return !value || (run && exchange.view.cluster.runs.at(*run).user != exchange.caller.user);
}

// Returns the id of the run's token in the request, since the Caller does not contain it.
std::string run_token_of(const net::Request& request) {
    constexpr std::string_view bearer = "Bearer ";
    const std::string header = request.header("authorization");
    if (!header.starts_with(bearer)) return "";
    const auto token = security::parse_token(header.substr(bearer.size()));
    return token && token->id.starts_with("run-") ? token->id : "";
}

// Returns path and query without blanks. In an audit row, text behind a blank is the head's own (audit_detail).
std::string target_of(const Exchange& exchange) {
    std::string text = exchange.request.path;
    for (const auto& [name, value] : exchange.request.query)
        text += (text.find('?') == std::string::npos ? "?" : "&") + name + "=" + value;
    std::string out;
    for (const char c : text) out += c == ' ' ? "%20" : std::string(1, c);
    return out;
}

// The responder of a request that changes only files. The row becomes durable before the answer is sent.
class Audited : public net::Responder {
  public:
    Audited(Intake events, std::shared_ptr<net::Responder> inner, AuditDraft draft)
        : events_(events), inner_(std::move(inner)), draft_(std::move(draft)) {}
    void send(net::Response response) override {
        if (response.status >= 400 || !*draft_) return inner_->send(std::move(response));
        const Auditing scope(events_, draft_);
        auto held = std::make_shared<net::Response>(std::move(response));
        events_.save({.tokens = {}, .settings = {}, .done = [inner = inner_, held] { inner->send(std::move(*held)); }});
    }
    std::shared_ptr<net::Stream> stream(std::string type) override { return inner_->stream(std::move(type)); }
    std::shared_ptr<net::Socket> accept_socket(net::SocketEvents events) override {
        return inner_->accept_socket(std::move(events));
    }
    bool wants_socket() const override { return inner_->wants_socket(); }

  private:
    const Intake events_;
    std::shared_ptr<net::Responder> inner_;
    AuditDraft draft_;
};

}  // namespace

void begin_audit(Exchange& exchange, const Route& route) {
    const std::string run_token = run_token_of(exchange.request);
    const auto run = run_of(exchange);
    if (!changes(exchange, route, run)) return;
    const bool node = exchange.caller.role == Role::node;
    state::AuditRow row{.wall_ms = wall_ms(),
                        .user = exchange.caller.user,
                        .role = route.access == Access::anyone ? "" : to_text(exchange.caller.role),
                        .credential = node                ? "node:" + exchange.caller.node
                                      : run_token.empty() ? exchange.caller.token_id
                                                          : run_token,
                        .from = plain(exchange.request.peer.address),
                        .action = std::string(route.method) + " " + route.pattern,
                        .target = plain(target_of(exchange))};
    if (run) row.run = exchange.view.run_id(*run);
    exchange.audit = std::make_shared<std::optional<state::AuditRow>>(std::move(row));
    exchange.responder = std::make_shared<Audited>(exchange.events, std::move(exchange.responder), exchange.audit);
}

void audit_detail(const Exchange& exchange, const std::string& text) {
    if (exchange.audit && *exchange.audit) (*exchange.audit)->target += " " + plain(text);
}

void drop_audit(const Exchange& exchange) {
    if (exchange.audit) exchange.audit->reset();
}

}  // namespace rtrain::head

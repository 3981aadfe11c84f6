// The audit of requests: a row for each change that somebody asked for, in the transaction of that change. What changes
// only files (an upload, a backup) has its row made durable before it is answered. See storage/state/audit.hpp.
#include <cstdio>

#include "daemon/head/api.hpp"
#include "daemon/head/view_json.hpp"

namespace rtrain::head {
namespace {

constexpr std::size_t text_at_most = 300;

// Text from a request as one line of ASCII, cut at 300 characters.
std::string plain(std::string text) {
    if (text.size() > text_at_most) text.resize(text_at_most);
    for (char& c : text)
        if (c < 0x20 || c > 0x7e) c = '?';
    return text;
}

// Only a route that knows dry_run changes nothing when it is asked for.
bool tries_only(const Ask& ask, const Route& route) {
    return ask.asked("dry_run") && (" " + std::string(route.query) + " ").find(" dry_run ") != std::string::npos;
}

std::optional<RunId> run_of(const Ask& ask) {
    const auto named = ask.variables.find("run");
    if (named == ask.variables.end()) return std::nullopt;
    const auto found = find_run(ask.head, named->second);
    return found ? std::optional(*found) : std::nullopt;
}

// Files that agents write for their attempts, and values that a run's processes or its user leave there (any number
// of them), have no row.
bool changes(const Ask& ask, const Route& route, const std::optional<RunId>& run) {
    const std::string_view method = route.method, pattern = route.pattern;
    if (method == "GET" || method == "HEAD" || pattern == "/v1/plan" || tries_only(ask, route)) return false;
    if (ask.caller.role == Role::node) return pattern == "/v1/certificate";
    const bool value = pattern.find("/values/") != std::string_view::npos;
    return !value || (run && ask.head.cluster.runs.at(*run).user != ask.caller.user);
}

// The id of a run's token, which the caller does not carry.
std::string run_token_of(const net::Request& request) {
    constexpr std::string_view bearer = "Bearer ";
    const std::string header = request.header("authorization");
    if (!header.starts_with(bearer)) return "";
    const auto token = security::parse_token(header.substr(bearer.size()));
    return token && token->id.starts_with("run-") ? token->id : "";
}

// The path and its query without blanks: what stands behind a blank is the head's own word (audit_detail).
std::string target_of(const Ask& ask) {
    std::string text = ask.request.path;
    for (const auto& [name, value] : ask.request.query)
        text += (text.find('?') == std::string::npos ? "?" : "&") + name + "=" + value;
    std::string out;
    for (const char c : text) out += c == ' ' ? "%20" : std::string(1, c);
    return out;
}

// A change of files alone: its row becomes durable, and then it is answered.
class Audited : public net::Responder {
  public:
    Audited(Head& head, std::shared_ptr<net::Responder> inner, AuditDraft draft)
        : head_(head), inner_(std::move(inner)), draft_(std::move(draft)) {}
    void send(net::Response response) override {
        if (response.status >= 400 || !*draft_) return inner_->send(std::move(response));
        const Auditing scope(head_, draft_);
        auto held = std::make_shared<net::Response>(std::move(response));
        head_.save({.tokens = {}, .settings = {}, .done = [inner = inner_, held] { inner->send(std::move(*held)); }});
    }
    std::shared_ptr<net::Stream> stream(std::string type) override { return inner_->stream(std::move(type)); }
    std::shared_ptr<net::Socket> accept_socket(net::SocketEvents events) override {
        return inner_->accept_socket(std::move(events));
    }
    bool wants_socket() const override { return inner_->wants_socket(); }

  private:
    Head& head_;
    std::shared_ptr<net::Responder> inner_;
    AuditDraft draft_;
};

json audit_json(const state::AuditRow& row) {
    return {{"sequence", row.sequence}, {"time", wall_json(row.wall_ms)},
            {"wall_ms", row.wall_ms},   {"user", row.user},
            {"role", row.role},         {"credential", row.credential},
            {"from", row.from},         {"action", row.action},
            {"target", row.target},     {"run", row.run},
            {"hash", row.hash}};
}

}  // namespace

void begin_audit(Ask& ask, const Route& route) {
    const std::string run_token = run_token_of(ask.request);
    const auto run = run_of(ask);
    if (!changes(ask, route, run)) return;
    const bool node = ask.caller.role == Role::node;
    state::AuditRow row{.wall_ms = wall_ms(),
                        .user = ask.caller.user,
                        .role = route.access == Access::anyone ? "" : to_text(ask.caller.role),
                        .credential = node                ? "node:" + ask.caller.node
                                      : run_token.empty() ? ask.caller.token_id
                                                          : run_token,
                        .from = plain(ask.request.peer.address),
                        .action = std::string(route.method) + " " + route.pattern,
                        .target = plain(target_of(ask))};
    if (run) row.run = ask.head.run_id(*run);
    ask.audit = std::make_shared<std::optional<state::AuditRow>>(std::move(row));
    ask.responder = std::make_shared<Audited>(ask.head, std::move(ask.responder), ask.audit);
}

void audit_detail(const Ask& ask, const std::string& text) {
    if (ask.audit && *ask.audit) (*ask.audit)->target += " " + plain(text);
}

void drop_audit(const Ask& ask) {
    if (ask.audit) ask.audit->reset();
}

void tell_audit_end(Head& head) {
    const state::AuditEnd end = head.journal->audit_end();
    if (end.sequence > 0)
        std::fprintf(stderr, "rtrain head: the audit ends at %llu:%s\n", static_cast<unsigned long long>(end.sequence),
                     end.hash.c_str());
    head.loop.after(head.options.audit_end_ms, [&head] { tell_audit_end(head); });
}

void get_audit(Ask& ask) {
    const auto page = page_of(ask);
    if (!page) return refuse(ask, page.error());
    const std::uint64_t after = ask.query("cursor").empty() ? after_of(ask) : page->offset;
    json items = json::array(), cursor;
    for (const state::AuditRow& row : ask.head.journal->audit(after, page->limit)) {
        items.push_back(audit_json(row));
        if (items.size() == page->limit) cursor = std::to_string(row.sequence);
    }
    reply_json(ask, 200, {{"items", std::move(items)}, {"next_cursor", std::move(cursor)}});
}

}  // namespace rtrain::head

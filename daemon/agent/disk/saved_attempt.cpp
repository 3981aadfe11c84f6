// A saved attempt as JSON. One list of fields serves writing and reading. The names are those of earlier agents, whose
// files the next agent reads. A missing field keeps its default.
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/json_text.hpp"
#include "daemon/agent/disk/node_files.hpp"

namespace rtrain::agent {
namespace {

using nlohmann::json;

class Writer {
  public:
    explicit Writer(json& out) : out_(out) {}
    template <class T>
    void operator()(const char* name, const T& value) {
        out_[name] = value;
    }
    void operator()(const char* name, const StagedPaths& by_rank) {
        json& texts = out_[name] = json::object();
        for (const auto& [rank, path] : by_rank) texts[std::to_string(rank)] = path;
    }
    // Writes the order without its secrets, which are not stored on disk (storage_access.hpp). Workers have their
    // secrets already.
    void operator()(const char* name, protocol::Prepare order) {
        order.access.secrets.clear();
        out_[name] = protocol::encode(protocol::FromHead{std::move(order)});
    }
    void operator()(const char* name, std::optional<protocol::Launch> order) {
        if (!order) return;
        order->secrets.clear();
        order->token.clear();
        out_[name] = protocol::encode(protocol::FromHead{std::move(*order)});
    }
    void operator()(const char* name, std::optional<SavedUpload>& upload);

  private:
    json& out_;
};

class Reader {
  public:
    explicit Reader(const json& in) : in_(in) {}
    template <class T>
    void operator()(const char* name, T& value) {
        if (const json* field = find(name)) value = field->get<T>();
    }
    void operator()(const char* name, StagedPaths& by_rank) {
        if (const json* field = find(name))
            for (const auto& [rank, path] : field->items())
                by_rank[static_cast<std::uint32_t>(std::stoul(rank))] = path.get<std::string>();
    }
    void operator()(const char* name, protocol::Prepare& order) { order = message<protocol::Prepare>(in_.at(name)); }
    void operator()(const char* name, std::optional<protocol::Launch>& order) {
        if (const json* field = find(name)) order = message<protocol::Launch>(*field);
    }
    void operator()(const char* name, std::optional<SavedUpload>& upload);

  private:
    const json* find(const char* name) const {
        const auto entry = in_.find(name);
        return entry == in_.end() ? nullptr : &*entry;
    }
    template <class T>
    static T message(const json& text) {
        auto order = protocol::decode_from_head(text.get<std::string>());
        if (!order) throw std::invalid_argument(order.error().message);
        return std::get<T>(std::move(*order));
    }
    const json& in_;
};

template <class Visitor>
void fields(Visitor& visit, SavedUpload& upload) {
    visit("index", upload.released.index), visit("directory", upload.released.directory);
    visit("skip", upload.released.skip), visit("sync", upload.released.sync), visit("staged", upload.staged);
    visit("metrics", upload.metrics_json), visit("wall_ms", upload.wall_ms);
    visit("blocked_ms", upload.blocked_ms), visit("skips", upload.skips);
}

template <class Visitor>
void fields(Visitor& visit, SavedAttempt& saved) {
    visit("prepare", saved.prepare), visit("launch", saved.launch), visit("number", saved.number);
    visit("from", saved.from), visit("master_address", saved.master_address), visit("master_port", saved.master_port);
    visit("upload", saved.upload), visit("local_run_path", saved.local_run_path);
    visit("hang_timeout_ms", saved.policy.hang_timeout_ms);
    visit("isolation_timeout_ms", saved.policy.isolation_timeout_ms);
    visit("report_timeout_ms", saved.policy.report_timeout_ms), visit("stop_at", saved.policy.stop_at);
    visit("memory_bytes", saved.policy.memory_bytes);
    visit("passed", saved.passed), visit("named", saved.named), visit("names", saved.names);
    visit("enough", saved.enough), visit("asked", saved.asked), visit("asked_after", saved.asked_after);
    visit("committed", saved.committed), visit("committed_as", saved.committed_as);
    visit("uploading", saved.uploading);
}

void Writer::operator()(const char* name, std::optional<SavedUpload>& upload) {
    if (!upload) return;
    Writer inner(out_[name] = json::object());
    fields(inner, *upload);
}

void Reader::operator()(const char* name, std::optional<SavedUpload>& upload) {
    const json* field = find(name);
    if (!field) return;
    Reader inner(*field);
    fields(inner, upload.emplace());
}

}  // namespace

std::string encode(const SavedAttempt& saved) {
    json out{{"version", 1}};
    Writer writer(out);
    fields(writer, const_cast<SavedAttempt&>(saved));  // the list of fields takes a mutable value, since it also reads
    return json_text(out);
}

Result<SavedAttempt> decode_saved_attempt(const std::string& text) {
    const json in = parse_json(text);
    if (!in.is_object() || !in.contains("prepare")) return Error{ErrorCode::damaged, "this is no saved attempt", ""};
    try {
        SavedAttempt saved;
        Reader reader(in);
        fields(reader, saved);
        return saved;
    } catch (const std::exception& wrong) {
        return Error{ErrorCode::damaged, std::string("a saved attempt: ") + wrong.what(), ""};
    }
}

}  // namespace rtrain::agent

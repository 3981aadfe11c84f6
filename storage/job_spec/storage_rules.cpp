// Reads the storage rules strictly, as the queues' file is read: a misspelt rule must not allow more or less than its
// author believes.
#include "storage/job_spec/storage_rules.hpp"

#include <algorithm>

#include "base/bucket_secrets.hpp"
#include "storage/job_spec/file_reader.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::spec {
namespace {

constexpr const char* example = "configs/storage-rules.yaml shows every field";
constexpr const char* everything = "*";

class RulesReader : private FileReader {
  public:
    explicit RulesReader(Problems problems) : FileReader(std::move(problems)) {}
    void read(const Value& root);
    StorageRulesAnswer answer() &&;

  private:
    using TakeText = std::function<void(const std::string& path, const Value&, std::vector<std::string>& into)>;
    void texts(const std::string& path, const Value& value, std::vector<std::string>& into, const TakeText& take);
    void read_rule(const std::string& path, const Value& value);
    void take_name(const std::string& path, const Value& value, std::vector<std::string>& into);
    void take_place(const std::string& path, const Value& value, std::vector<std::string>& into);
    void take_endpoint(const std::string& path, const Value& value, std::vector<std::string>& into);

    StorageRules rules_;
};

// Reads a list of texts. An empty list is refused, since an empty list that was meant to restrict would allow all
// users.
void RulesReader::texts(const std::string& path, const Value& value, std::vector<std::string>& into,
                        const TakeText& take) {
    if (value.kind != Kind::list || value.items.empty())
        return problem(path, value.place, "wants a list with at least one entry");
    for (std::size_t i = 0; i < value.items.size(); ++i) {
        const Value& item = value.items[i];
        const std::string at = below(path, i);
        if (item.kind != Kind::string || item.text.empty())
            problem(at, item.place, "wants text", "quote it if it is a name");
        else
            take(at, item, into);
    }
}

void RulesReader::take_name(const std::string&, const Value& value, std::vector<std::string>& into) {
    into.push_back(value.text);
}

void RulesReader::take_place(const std::string& path, const Value& value, std::vector<std::string>& into) {
    if (value.text == everything) return into.push_back(everything);
    const auto place = normal_place(value.text);
    if (!place) return problem(path, value.place, place.error().message, place.error().next);
    if (place->find('*') != std::string::npos)
        return problem(path, value.place, shown(value.text) + ": '*' within a path is no pattern",
                       "give the directory or prefix above; \"*\" alone allows every path");
    if (*place == "cluster://") return problem(path, value.place, "cluster:// is always allowed", "leave it out");
    into.push_back(*place);
}

void RulesReader::take_endpoint(const std::string& path, const Value& value, std::vector<std::string>& into) {
    std::string text = value.text;
    while (text.ends_with('/')) text.pop_back();
    const bool http = text.starts_with("http://") || text.starts_with("https://");
    if (!http || text.find('/', text.find("://") + 3) != std::string::npos || text.find('@') != std::string::npos)
        return problem(path, value.place, "wants http://host:port or https://host:port, found " + shown(value.text));
    into.push_back(text);
}

void RulesReader::read_rule(const std::string& path, const Value& value) {
    if (value.kind != Kind::map) return problem(path, value.place, "wants a map of users, queues and allow", example);
    StorageRule rule;
    const auto list = [&](std::vector<std::string>& into, auto member) {
        return [this, &into, member](const std::string& at, const Value& v) {
            texts(at, v, into, [this, member](const std::string& where, const Value& item, auto& names) {
                (this->*member)(where, item, names);
            });
        };
    };
    fields(value, path,
           {{"users", list(rule.users, &RulesReader::take_name)},
            {"queues", list(rule.queues, &RulesReader::take_name)},
            {"allow", list(rule.allow, &RulesReader::take_place)}},
           Null::taken);
    if (!value.find("users") && !value.find("queues"))
        problem(path, value.place, "says neither users nor queues", "users: [\"*\"] means everybody");
    if (!value.find("allow")) problem(below(path, "allow"), value.place, "is missing", example);
    rules_.rules.push_back(std::move(rule));
}

void RulesReader::read(const Value& root) {
    if (root.kind != Kind::map) return problem("", {1, 1}, "wants a map with `rules:`", example);
    fields(root, "",
           {{"version",
             [&](const std::string& at, const Value& v) {
                 if (v.kind != Kind::number || v.raw != "1") problem(at, v.place, "wants 1");
             }},
            {"endpoints",
             [&](const std::string& at, const Value& v) {
                 texts(at, v, rules_.endpoints, [this](const std::string& where, const Value& item, auto& into) {
                     take_endpoint(where, item, into);
                 });
             }},
            {"rules",
             [&](const std::string& at, const Value& v) {
                 if (v.kind != Kind::list) return problem(at, v.place, "wants a list of rules", example);
                 for (std::size_t i = 0; i < v.items.size(); ++i) read_rule(below(at, i), v.items[i]);
             }}},
           Null::taken);
    if (!root.find("rules")) problem("rules", {1, 1}, "is missing", example);
}

StorageRulesAnswer RulesReader::answer() && {
    if (!problems_.empty()) return {.rules = std::nullopt, .problems = std::move(*this).sorted()};
    return {.rules = std::move(rules_), .problems = {}};
}

bool names(const std::vector<std::string>& list, const std::string& name) {
    return list.empty() || std::any_of(list.begin(), list.end(), [&](const std::string& listed_name) {
               return listed_name == everything || (listed_name == name && !name.empty());
           });
}

bool holds_for(const StorageRule& rule, const StorageUser& who) {
    return names(rule.users, who.user) && names(rule.queues, who.queue);
}

bool allows(const std::string& allowed, const std::string& place) {
    if (allowed == everything || allowed == place) return true;
    return place.starts_with(allowed.ends_with('/') ? allowed : allowed + "/");
}

}  // namespace

bool names_directories(const StorageRules& rules) {
    for (const StorageRule& rule : rules.rules)
        for (const std::string& allowed : rule.allow)
            if (allowed.front() == '/' || allowed == everything) return true;
    return false;
}

std::vector<std::string> allowed_directories(const StorageRules& rules, const StorageUser& who) {
    std::vector<std::string> directories;
    for (const StorageRule& rule : rules.rules) {
        if (!holds_for(rule, who)) continue;
        for (const std::string& allowed : rule.allow)
            if (allowed.front() == '/') directories.push_back(allowed);
    }
    return directories;
}

StorageRulesAnswer read_storage_rules(const std::string& yaml_text) { return read_file<RulesReader>(yaml_text); }

Result<std::string> normal_place(const std::string& storage_path) {
    const auto uri = storage::parse_uri(storage_path.empty() ? "cluster://" : storage_path);
    if (!uri) return uri.error();
    switch (uri->scheme) {
        case storage::Scheme::cluster:
            return std::string("cluster://");
        case storage::Scheme::file:
            return uri->path;
        case storage::Scheme::s3:
        case storage::Scheme::gs:
        case storage::Scheme::az:
        case storage::Scheme::abfs:
        case storage::Scheme::abfss:
            break;
    }
    for (std::size_t begin = 0; begin <= uri->path.size();) {
        const std::size_t end = std::min(uri->path.find('/', begin), uri->path.size());
        const std::string part = uri->path.substr(begin, end - begin);
        if (part.empty() || part == "." || part == "..")
            return Error{ErrorCode::invalid, shown(storage_path) + " has an empty, '.' or '..' part", ""};
        begin = end + 1;
    }
    return storage::canonical_text(*uri);
}

Status may_use(const StorageRules& rules, const StorageUser& who, const std::string& storage_path) {
    const auto place = normal_place(storage_path);
    if (!place) return place.error();
    const bool directory = place->front() == '/';
    if (*place == "cluster://" || (directory && !names_directories(rules))) return Done{};
    std::string allowed;
    for (const StorageRule& rule : rules.rules) {
        if (!holds_for(rule, who)) continue;
        for (const std::string& allowed_path : rule.allow) {
            if (allows(allowed_path, *place)) return Done{};
            allowed += (allowed.empty() ? "" : ", ") + allowed_path;
        }
    }
    const BucketSecrets* secrets = bucket_secrets(*place);
    const std::string whose = who.user.empty() ? "a user whom the head does not name" : "user '" + who.user + "'";
    return Error{ErrorCode::unauthorised,
                 whose + " (queue '" + who.queue + "') may not use " + *place +
                     ": the storage rules of this node allow " + (allowed.empty() ? "no path of that kind" : allowed),
                 "take an allowed path, or ask who operates the node to allow it" +
                     (secrets == nullptr
                          ? ""
                          : "; or bring credentials of your own: secrets: " + secrets_text(*secrets) + " in the job")};
}

}  // namespace rtrain::spec

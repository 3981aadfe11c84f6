// Converts JSON to the same tree as YAML, and the tree to JSON. Numbers keep their digits: 0.0003 never becomes a
// double.

#include <nlohmann/json.hpp>
#include <set>

#include "base/json_text.hpp"
#include "storage/job_spec/value.hpp"

namespace rtrain::spec {
namespace {

using nlohmann::json;

class JsonBuilder {  // implements nlohmann's SAX interface
  public:
    explicit JsonBuilder(Tree& tree) : tree_(tree) {}

    bool null() { return add({}); }
    bool boolean(bool value) { return add({.kind = Kind::boolean, .text = value ? "true" : "false"}); }
    bool number_integer(json::number_integer_t value) { return number(std::to_string(value)); }
    bool number_unsigned(json::number_unsigned_t value) { return number(std::to_string(value)); }
    bool number_float(json::number_float_t, const std::string& digits) { return number(digits); }
    bool string(std::string& value) { return add({.kind = Kind::string, .text = value, .raw = value}); }
    bool binary(json::binary_t&) { return false; }
    bool start_object(std::size_t) { return open(Kind::map); }
    bool end_object() { return close(); }
    bool start_array(std::size_t) { return open(Kind::list); }
    bool end_array() { return close(); }
    bool key(std::string& key) {
        if (!keys_.back().insert(key).second) return fail("key " + shown(key) + " is given twice");
        levels_.back().entries.push_back({key, {}, {}});
        return true;
    }
    bool parse_error(std::size_t position, const std::string&, const json::exception& wrong) {
        return fail("not JSON at byte " + std::to_string(position) + ": " + wrong.what());
    }

  private:
    bool fail(const std::string& message) {
        tree_.problems.push_back({"", 0, 0, message, ""});
        return false;
    }
    bool number(const std::string& digits) { return add({.kind = Kind::number, .text = digits, .raw = digits}); }
    bool open(Kind kind) {
        if (static_cast<int>(levels_.size()) >= nesting_most)
            return fail("nested deeper than " + std::to_string(nesting_most) + " levels");
        levels_.push_back({.kind = kind});
        keys_.emplace_back();
        return true;
    }
    bool close() {
        Value value = std::move(levels_.back());
        levels_.pop_back();
        keys_.pop_back();
        return add(std::move(value));
    }
    bool add(Value value) {
        if (++values_ > values_most) return fail("more than " + std::to_string(values_most) + " values");
        if (levels_.empty())
            tree_.root = std::move(value);
        else if (levels_.back().kind == Kind::list)
            levels_.back().items.push_back(std::move(value));
        else
            levels_.back().entries.back().value = std::move(value);
        return true;
    }

    Tree& tree_;
    std::size_t values_ = 0;
    std::vector<Value> levels_;
    std::vector<std::set<std::string>> keys_;  // keys of the objects that are open; index: the depth
};

std::string quoted(const std::string& text) { return json_text(json(text)); }

void write(const Value& value, std::string& out) {
    switch (value.kind) {
        case Kind::null:
            out += "null";
            return;
        case Kind::boolean:
        case Kind::number:
            out += value.text;
            return;
        case Kind::string:
            out += quoted(value.text);
            return;
        case Kind::list: {
            out += '[';
            for (const Value& item : value.items) {
                if (&item != &value.items.front()) out += ',';
                write(item, out);
            }
            out += ']';
            return;
        }
        case Kind::map: {
            out += '{';
            for (const Entry& entry : value.entries) {
                if (&entry != &value.entries.front()) out += ',';
                out += quoted(entry.key) + ':';
                write(entry.value, out);
            }
            out += '}';
            return;
        }
    }
}

}  // namespace

const Value* Value::find(std::string_view key) const {
    for (const Entry& entry : entries)
        if (entry.key == key) return &entry.value;
    return nullptr;
}

Tree json_tree(const std::string& text) {
    Tree tree;
    if (text.size() > json_bytes_most) {
        tree.problems.push_back(
            {"", 0, 0,
             "the job has " + std::to_string(text.size()) + " bytes; the most is " + std::to_string(json_bytes_most),
             ""});
        return tree;
    }
    JsonBuilder builder(tree);
    json::sax_parse(text, &builder);
    return tree;
}

std::string to_json_text(const Value& value) {
    std::string out;
    write(value, out);
    return out;
}

}  // namespace rtrain::spec

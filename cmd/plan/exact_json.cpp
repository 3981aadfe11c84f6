// A JSON reader that keeps the digits of fractions.
#include <nlohmann/json.hpp>

#include "cmd/plan/plan_case.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

// Builds a value from the events of the JSON parser. A fraction becomes a string with its digits.
class Builder : public json::json_sax_t {
  public:
    json root;
    std::string why;

    bool null() override { return put(nullptr); }
    bool boolean(bool value) override { return put(value); }
    bool number_integer(number_integer_t value) override { return put(value); }
    bool number_unsigned(number_unsigned_t value) override { return put(value); }
    bool number_float(number_float_t, const string_t& text) override { return put(text); }
    bool string(string_t& value) override { return put(value); }
    bool binary(binary_t&) override { return false; }
    bool start_object(std::size_t) override { return open(json::object()); }
    bool start_array(std::size_t) override { return open(json::array()); }
    bool end_object() override { return close(); }
    bool end_array() override { return close(); }
    bool key(string_t& value) override {
        const auto [entry, fresh] = stack_.back()->get_ref<json::object_t&>().try_emplace(std::move(value));
        if (!fresh) why = "the key \"" + entry->first + "\" is there twice";
        slot_ = &entry->second;
        return fresh;
    }
    bool parse_error(std::size_t at, const std::string&, const nlohmann::detail::exception& error) override {
        why = "not JSON at byte " + std::to_string(at) + ": " + error.what();
        return false;
    }

  private:
    json* place(json value) {
        if (stack_.empty()) {
            root = std::move(value);
            return &root;
        }
        json& into = *stack_.back();
        if (into.is_array()) {
            into.push_back(std::move(value));
            return &into.back();
        }
        return &(*slot_ = std::move(value));
    }
    bool put(json value) {
        place(std::move(value));
        return true;
    }
    bool open(json value) {
        if (stack_.size() >= 200) {
            why = "nested more than 200 deep";
            return false;
        }
        stack_.push_back(place(std::move(value)));
        return true;
    }
    bool close() {
        stack_.pop_back();
        return true;
    }

    std::vector<json*> stack_;
    json* slot_ = nullptr;  // where the value of the last key is stored
};

std::string with_quoted_specials(const std::string& text) {
    std::string out;
    bool inside = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (inside && text[i] == '\\') {
            out += text.substr(i, 2);
            ++i;
            continue;
        }
        if (text[i] == '"') inside = !inside;
        bool special = false;
        for (const std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
            if (inside || special || text.compare(i, word.size(), word) != 0) continue;
            out += "\"" + std::string(word) + "\"";
            i += word.size() - 1;
            special = true;
        }
        if (!special) out += text[i];
    }
    return out;
}

}  // namespace

Result<json> parse_exact(const std::string& text) {
    Builder builder;
    if (json::sax_parse(text, &builder)) return std::move(builder.root);
    const std::string quoted = with_quoted_specials(text);
    Builder again;
    if (quoted != text && json::sax_parse(quoted, &again)) return std::move(again.root);
    return Error{.code = ErrorCode::invalid, .message = builder.why, .next = "docs/cli.md, plan"};
}

}  // namespace rtrain::cmd

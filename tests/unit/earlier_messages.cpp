#include "tests/unit/earlier_messages.hpp"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/json_text.hpp"
#include "tests/unit/source_directory.hpp"

namespace rtrain::test {
namespace {

using Json = nlohmann::json;

std::string difference(const Json& sent, const Json& decoded, const std::string& at) {
    if (sent.is_object() && decoded.is_object()) {
        for (const auto& [name, value] : sent.items()) {
            if (!decoded.contains(name)) return at + "." + name + " is lost: " + json_text(value);
            if (std::string inner = difference(value, decoded.at(name), at + "." + name); !inner.empty()) return inner;
        }
        return "";
    }
    if (sent.is_array() && decoded.is_array() && sent.size() == decoded.size()) {
        for (std::size_t i = 0; i < sent.size(); ++i)
            if (std::string inner = difference(sent[i], decoded[i], at + "[" + std::to_string(i) + "]"); !inner.empty())
                return inner;
        return "";
    }
    return sent == decoded ? "" : at + " was " + json_text(sent) + " and is " + json_text(decoded);
}

}  // namespace

std::vector<EarlierMessage> earlier_messages(const std::string& between) {
    std::vector<EarlierMessage> messages;
    for (const auto& entry : std::filesystem::directory_iterator(source_directory() + "/tests/data")) {
        const std::string name = entry.path().stem();
        if (!name.starts_with("messages-")) continue;
        std::ifstream file(entry.path());
        for (std::string line; std::getline(file, line);) {
            const Json value = parse_json(line);
            if (value.at("between") == between)
                messages.push_back({.release = name.substr(std::string("messages-").size()),
                                    .between = between,
                                    .sender = value.at("sender"),
                                    .text = value.at("message")});
        }
    }
    if (messages.empty()) throw std::runtime_error("tests/data has no message of " + between);
    return messages;
}

std::string lost_in(const std::string& sent, const std::string& decoded) {
    return difference(parse_json(sent), parse_json(decoded), "message");
}

}  // namespace rtrain::test

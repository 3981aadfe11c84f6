// Formats and errors. Every JSON document carries schema_version.
#include "cmd/text/output.hpp"

#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "base/write_all.hpp"
#include "cmd/text/terminal.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

json versioned(json value) {
    if (value.is_object() && !value.contains("schema_version")) value["schema_version"] = 1;
    return value;
}

std::string name_of(const json& value, const char* field) {
    if (!value.is_object() || !value.contains(field)) return "";
    const json& name = value[field];
    return shown_line(name.is_string() ? name.get<std::string>() : json_text(name)) + "\n";
}

}  // namespace

Format format_from(std::string_view text) {
    if (text == "wide") return Format::wide;
    if (text == "json") return Format::json;
    if (text == "jsonl") return Format::jsonl;
    if (text == "yaml") return Format::yaml;
    if (text == "name") return Format::name;
    return Format::table;
}

std::string terminal_json(const json& value, int indent) {
    const std::string text = json_text(value, indent);
    // json::dump escapes the control characters C0. Some terminals also interpret DEL and C1 (C2 80 .. C2 9F), so these
    // are escaped here.
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
        if (byte == 0x7f) {
            out += "\\u007f";
        } else if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {
            char escape[8];
            std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(next));
            out += escape;
            ++i;
        } else {
            out += text[i];
        }
    }
    return out;
}

Output::Output(Format format, std::string colour_choice)
    : format_(format),
      colour_(colour_wanted(colour_choice, STDOUT_FILENO)),
      colour_talk_(colour_wanted(colour_choice, STDERR_FILENO)) {}

void Output::list(const json& answer, const std::vector<Column>& columns, const char* name_field, const char* none) {
    const json items = answer.contains("items") ? answer["items"] : json::array();
    switch (format_) {
        case Format::table:
        case Format::wide:
            if (items.empty())
                talk(none);
            else
                waiting_ += table_text(items, columns, format_, colour_);
            return;
        case Format::json:
            waiting_ += terminal_json(versioned(answer), 2) + "\n";
            return;
        case Format::yaml:
            waiting_ += yaml_text(versioned(answer));
            return;
        case Format::jsonl:
            for (const json& item : items) waiting_ += terminal_json(versioned(item), -1) + "\n";
            return;
        case Format::name:
            for (const json& item : items) waiting_ += name_of(item, name_field);
            return;
    }
}

void Output::document(const json& value, const char* name_field, const std::string& text) {
    switch (format_) {
        case Format::table:
        case Format::wide:
            waiting_ += shown(text);
            return;
        case Format::json:
            waiting_ += terminal_json(versioned(value), 2) + "\n";
            return;
        case Format::jsonl:
            waiting_ += terminal_json(versioned(value), -1) + "\n";
            return;
        case Format::yaml:
            waiting_ += yaml_text(versioned(value));
            return;
        case Format::name:
            waiting_ += name_of(value, name_field);
            return;
    }
}

void Output::each(const json& value, const char* name_field, const std::string& text) {
    switch (format_) {
        case Format::table:
        case Format::wide:
            waiting_ += shown(text);
            break;
        case Format::json:
        case Format::jsonl:
            waiting_ += terminal_json(versioned(value), -1) + "\n";
            break;
        case Format::yaml:
            waiting_ += "---\n" + yaml_text(versioned(value));
            break;
        case Format::name:
            waiting_ += name_of(value, name_field);
            break;
    }
    flush();
}

void Output::raw(std::string_view text) { waiting_ += text; }

void Output::talk(const std::string& text) {
    flush();
    storage::write_all(STDERR_FILENO, shown(text) + "\n");
}

std::string Output::take() { return std::exchange(waiting_, {}); }

bool Output::flush() {
    if (waiting_.empty()) return true;
    return storage::write_all(STDOUT_FILENO, std::exchange(waiting_, {})) == 0;
}

void Output::error(const Error& error, const Problems& problems) {
    const std::string label = painted("error:", colour_talk_ ? Colour::red : Colour::none);
    flush();
    if (format_ != Format::table && format_ != Format::wide && format_ != Format::name) {
        const json value = error_json(error, problems);
        waiting_ +=
            format_ == Format::yaml ? yaml_text(value) : terminal_json(value, format_ == Format::json ? 2 : -1) + "\n";
        flush();
    }
    std::string text = label + " " + shown(error.message) + "\n";
    if (!error.next.empty()) text += "  next: " + shown(error.next) + "\n";
    storage::write_all(STDERR_FILENO, text);
}

json error_json(const Error& error, const Problems& problems) {
    json list = json::array();
    for (const Problem& p : problems)
        list.push_back({{"path", p.path},
                        {"line", p.line},
                        {"column", p.column},
                        {"message", p.message},
                        {"suggestion", p.suggestion}});
    const json inner = {{"code", code_text(error.code)},
                        {"message", error.message},
                        {"problems", list},
                        {"next", error.next},
                        {"exit_code", exit_code(error.code)}};
    return {{"schema_version", 1}, {"error", inner}};
}

}  // namespace rtrain::cmd

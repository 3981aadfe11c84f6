// Lays items out in columns. Cells contain text of other users, so their control characters are escaped first.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "cmd/text/output.hpp"
#include "cmd/text/terminal.hpp"
#include "cmd/text/units.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

// Returns a field of the item. "a.b" is the field b of a. Also finds a key that itself contains dots
// ("metrics.val.loss").
const json* field_of(const json& item, std::string_view path) {
    const json* at = &item;
    while (at->is_object()) {
        const auto whole = at->find(std::string(path));
        if (whole != at->end()) return &*whole;
        const auto dot = path.find('.');
        const auto part = dot == path.npos ? at->end() : at->find(std::string(path.substr(0, dot)));
        if (part == at->end()) return nullptr;
        at = &*part;
        path.remove_prefix(dot + 1);
    }
    return nullptr;
}

std::string plain(const json& value) {
    if (value.is_string()) return value.get<std::string>();
    if (value.is_number_float()) {
        char text[32];
        std::snprintf(text, sizeof text, "%.6g", value.get<double>());
        return text;
    }
    return value.is_null() ? "-" : json_text(value);
}

std::string amount_of_memory(const std::string& bytes) {
    const bool whole = !bytes.empty() && bytes.size() < 18 && bytes.find_first_not_of("0123456789") == bytes.npos;
    if (!whole) return bytes;
    std::string text = bytes_text(std::stoll(bytes));
    text.erase(text.find(' '), 1);
    return text;
}

std::string pairs_text(const json& value) {
    std::string text;
    for (const auto& [key, inner] : value.items())
        text +=
            (text.empty() ? "" : " ") + key + "=" + (key == "memory" ? amount_of_memory(plain(inner)) : plain(inner));
    return text;
}

std::string list_text(const json& value) {
    std::string text;
    for (const json& inner : value) text += (text.empty() ? "" : ",") + plain(inner);
    return text;
}

std::string shaped(const json& value, Shape shape) {
    switch (shape) {
        case Shape::text:
        case Shape::state:
            return plain(value);
        case Shape::time:
            return plain(value);
        case Shape::age: {
            const auto wall = value.is_string() ? parse_time(value.get<std::string>()) : std::nullopt;
            return wall ? duration_text(wall_now_ms() - *wall) : "-";
        }
        case Shape::duration:
            return value.is_number() ? duration_text(value.get<std::int64_t>()) : "-";
        case Shape::bytes:
            return value.is_number() ? bytes_text(value.get<std::int64_t>()) : "-";
        case Shape::list:
            return value.is_array() ? list_text(value) : plain(value);
        case Shape::pairs:
            return value.is_object() ? pairs_text(value) : plain(value);
    }
    return "";
}

}  // namespace

std::string cell_text(const json& item, const Column& column) {
    const json* value = field_of(item, column.field);
    std::string text = value == nullptr ? "-" : shaped(*value, column.shape);
    if (const auto end = text.find('\n'); end != std::string::npos) text.replace(end, std::string::npos, " ...");
    return text.empty() ? "-" : shown_line(text);
}

std::string table_text(const json& items, const std::vector<Column>& all, Format format, bool colour) {
    std::vector<Column> columns;
    for (const Column& column : all)
        if (!column.wide || format == Format::wide) columns.push_back(column);
    std::vector<std::vector<std::string>> rows(1);
    for (const Column& column : columns) rows[0].push_back(shown_line(column.title));
    for (const json& item : items) {
        rows.emplace_back();
        for (const Column& column : columns) rows.back().push_back(cell_text(item, column));
    }
    std::vector<std::size_t> widths(columns.size());
    for (const auto& row : rows)
        for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
    std::string text;
    for (std::size_t r = 0; r < rows.size(); ++r) {
        for (std::size_t i = 0; i < columns.size(); ++i) {
            const std::string& cell = rows[r][i];
            const bool paint = colour && r > 0 && columns[i].shape == Shape::state;
            text += paint ? painted(cell, state_colour(cell)) : cell;
            if (i + 1 < columns.size()) text.append(widths[i] - width(cell) + 2, ' ');
        }
        text += "\n";
    }
    return text;
}

}  // namespace rtrain::cmd

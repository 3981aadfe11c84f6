// See columns.hpp. The bytes are: the number of parts, the length of each part (4 bytes, little-endian), then the
// parts. The first part contains the marks, each as differences to the mark before: "bucket wall_ms attempt step\n".
// Each other part contains the ranges of one key in the order of the marks: "least greatest\n", "value\n" if both are
// equal, "\n" if there is no value. A number is the shortest text that reads back as the same double, as in the reports
// themselves. A part is one zstd frame with a checksum; an empty part has no bytes.
#include "storage/history/columns.hpp"

#include <charconv>
#include <memory>
#include <string_view>

#include "storage/history/limits.hpp"
#include "storage/state/codec/compression.hpp"

namespace rtrain::history {
namespace {

constexpr int compression_level = 9;
constexpr std::size_t length_bytes = 4, parts_most = keys_most + 1, unpacked_most = 16 << 20;

Error broken() {
    return {ErrorCode::damaged, "a chunk of the charts' history is damaged", "it is made anew of the reports"};
}

void put_number(std::string& out, std::int64_t value, char end) {
    char text[24];
    const auto done = std::to_chars(text, text + sizeof text, value);
    out.append(text, done.ptr);
    out += end;
}

void put_double(std::string& out, double value, char end) {
    char text[32];
    const auto done = std::to_chars(text, text + sizeof text, value);
    out.append(text, done.ptr);
    out += end;
}

std::string marks_text(const std::vector<Mark>& marks) {
    std::string out;
    Mark before;
    for (const Mark& mark : marks) {
        put_number(out, static_cast<std::int64_t>(mark.bucket - before.bucket), ' ');
        put_number(out, mark.wall_ms - before.wall_ms, ' ');
        put_number(out, static_cast<std::int64_t>(mark.attempt) - before.attempt, ' ');
        put_number(out, static_cast<std::int64_t>(mark.step - before.step), '\n');
        before = mark;
    }
    return out;
}

std::string ranges_text(const std::vector<Range>& ranges) {
    std::string out;
    for (const Range& range : ranges) {
        const bool two = !range.empty() && range.least != range.greatest;
        if (two) put_double(out, range.least, ' ');
        if (range.empty())
            out += '\n';
        else
            put_double(out, range.greatest, '\n');
    }
    return out;
}

// Reads the numbers of a text one after another. `ok` becomes false at the first text that is not a number.
struct Reader {
    const char *at, *end;
    bool ok = true;

    explicit Reader(const std::string& text) : at(text.data()), end(at + text.size()) {}
    bool more() const { return ok && at < end; }
    template <class Number>
    Number number() {
        Number value{};
        const auto [stopped, fault] = std::from_chars(at, end, value);
        ok = ok && fault == std::errc{} && stopped != end;
        if (ok) at = stopped;
        return value;
    }
    bool next_is(char c) {
        if (!ok || at == end || *at != c) return false;
        ++at;
        return true;
    }
    void expect(char c) { ok = next_is(c) && ok; }
};

bool read_marks(const std::string& text, std::vector<Mark>& marks) {
    Reader reader(text);
    Mark mark;
    while (reader.more()) {
        mark.bucket += static_cast<std::uint64_t>(reader.number<std::int64_t>());
        reader.expect(' ');
        mark.wall_ms += reader.number<std::int64_t>();
        reader.expect(' ');
        mark.attempt += static_cast<std::uint32_t>(reader.number<std::int64_t>());
        reader.expect(' ');
        mark.step += static_cast<std::uint64_t>(reader.number<std::int64_t>());
        reader.expect('\n');
        marks.push_back(mark);
    }
    return reader.ok;
}

bool read_ranges(const std::string& text, std::size_t most, std::vector<Range>& ranges) {
    Reader reader(text);
    while (reader.more()) {
        Range range;
        if (!reader.next_is('\n')) {
            range.add(reader.number<double>());
            if (reader.next_is(' ')) range.add(reader.number<double>());
            reader.expect('\n');
        }
        ranges.push_back(range);
    }
    return reader.ok && ranges.size() <= most;
}

std::size_t length_at(const std::string& bytes, std::size_t place) {
    std::size_t value = 0;
    for (std::size_t i = 0; i < length_bytes; ++i)
        value |= static_cast<std::size_t>(static_cast<unsigned char>(bytes[place * length_bytes + i])) << (8 * i);
    return value;
}

void put_length(std::string& out, std::size_t value) {
    for (std::size_t i = 0; i < length_bytes; ++i) out += static_cast<char>((value >> (8 * i)) & 0xff);
}

}  // namespace

std::string pack(const Chunk& chunk) {
    std::string head, body;
    put_length(head, chunk.columns.size() + 1);
    const auto add = [&](const std::string& text) {
        const std::string part = text.empty() ? "" : state::compressed(text, compression_level);
        put_length(head, part.size());
        body += part;
    };
    add(marks_text(chunk.marks));
    for (const std::vector<Range>& column : chunk.columns) add(ranges_text(column));
    return head + body;
}

Result<Chunk> unpack(const std::string& bytes, std::optional<std::size_t> only) {
    Chunk chunk;
    const std::size_t parts = bytes.size() < length_bytes ? 0 : length_at(bytes, 0);
    if (parts == 0 || parts > parts_most || bytes.size() < (parts + 1) * length_bytes) return broken();
    chunk.columns.resize(parts - 1);
    std::size_t begin = (parts + 1) * length_bytes;
    for (std::size_t part = 0; part < parts; ++part) {
        const std::size_t length = length_at(bytes, part + 1);
        if (length > bytes.size() - begin) return broken();
        const std::string_view piece = std::string_view(bytes).substr(begin, length);
        begin += length;
        if (part > 0 && only && *only != part - 1) continue;
        const auto text = piece.empty() ? std::string() : state::expanded(piece, unpacked_most);
        if (!text) return broken();
        const bool read = part == 0 ? read_marks(*text, chunk.marks)
                                    : read_ranges(*text, chunk.marks.size(), chunk.columns[part - 1]);
        if (!read) return broken();
    }
    if (begin != bytes.size()) return broken();
    return chunk;
}

}  // namespace rtrain::history

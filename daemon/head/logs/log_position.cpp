// Encodes a position as unpadded base64 with '-' and '_'. It consists of numbers, each in bytes of seven bits, the
// least first: the form's version, the run, and then three numbers for each file. These are: attempts since the file
// before; rank (minus the rank before, in the same attempt) * 4 + stream; offset.
#include "daemon/head/logs/log_position.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "base/base64.hpp"

namespace rtrain::head {
namespace {

constexpr std::uint64_t form = 1;
constexpr std::size_t text_most = 48u << 10;
constexpr std::array<std::string_view, 3> streams = {"err", "out", "setup"};

void put_number(std::string& out, std::uint64_t number) {
    for (; number >= 128; number >>= 7) out += static_cast<char>(number | 128);
    out += static_cast<char>(number);
}

// Removes a number from the front and returns it; nullopt if there is no complete number.
std::optional<std::uint64_t> take_number(std::string_view& bytes) {
    std::uint64_t number = 0;
    for (unsigned shift = 0; shift < 63 && !bytes.empty(); shift += 7) {
        const auto byte = static_cast<unsigned char>(bytes.front());
        bytes.remove_prefix(1);
        number |= static_cast<std::uint64_t>(byte & 127) << shift;
        if (byte < 128) return number;
    }
    return std::nullopt;
}

std::string as_digits(const std::string& bytes) {
    std::string out = storage::base64_encode(bytes);
    while (out.ends_with('=')) out.pop_back();
    std::replace(out.begin(), out.end(), '+', '-');
    std::replace(out.begin(), out.end(), '/', '_');
    return out;
}

std::optional<std::string> from_digits(std::string_view text) {
    if (text.find_first_of("+/=") != std::string_view::npos) return std::nullopt;
    std::string padded(text);
    std::replace(padded.begin(), padded.end(), '-', '+');
    std::replace(padded.begin(), padded.end(), '_', '/');
    padded.append((4 - padded.size() % 4) % 4, '=');
    return storage::base64_decode(padded);
}

// Reads the entry after the file `name`. Returns its offset, and sets `name` to its file.
std::optional<std::uint64_t> take_entry(std::string_view& bytes, LogName& name) {
    const auto attempts = take_number(bytes), place = take_number(bytes), offset = take_number(bytes);
    if (!attempts || !place || !offset || *place % 4 >= streams.size()) return std::nullopt;
    const std::uint64_t attempt = name.attempt + *attempts, rank = *place / 4 + (*attempts > 0 ? 0 : name.rank);
    constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
    if (attempt > most || rank > most) return std::nullopt;
    name.attempt = static_cast<std::uint32_t>(attempt);
    name.rank = static_cast<std::uint32_t>(rank);
    name.stream = streams[*place % 4];
    return offset;
}

}  // namespace

std::string position_text(RunId run, const LogPosition& position) {
    std::string bytes;
    put_number(bytes, form);
    put_number(bytes, run.value);
    std::uint32_t attempt = 0, rank = 0;
    for (const auto& [name, offset] : position) {
        const auto stream = std::find(streams.begin(), streams.end(), name.stream);
        if (offset == 0 || stream == streams.end()) continue;
        if (name.attempt != attempt) rank = 0;
        put_number(bytes, name.attempt - attempt);
        put_number(bytes, (name.rank - rank) * std::uint64_t{4} + static_cast<std::uint64_t>(stream - streams.begin()));
        put_number(bytes, offset);
        attempt = name.attempt;
        rank = name.rank;
    }
    std::string text = as_digits(bytes);
    return text.size() > text_most ? "" : text;
}

std::optional<LogPosition> position_of(std::string_view text, RunId run) {
    const auto bytes = from_digits(text);
    if (!bytes) return std::nullopt;
    std::string_view rest = *bytes;
    if (take_number(rest) != form || take_number(rest) != run.value) return std::nullopt;
    LogPosition out;
    LogName name{.run = run, .attempt = 0, .rank = 0, .stream = ""};
    while (!rest.empty()) {
        const auto offset = take_entry(rest, name);
        if (!offset) return std::nullopt;
        out[name] = *offset;
    }
    return out;
}

}  // namespace rtrain::head

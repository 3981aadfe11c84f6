// Cuts the input of a fuzz target into parts, and reports a broken promise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace rtrain::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
    return {reinterpret_cast<const char*>(data), size};
}

// Takes the first byte of the input, which chooses a variant; 0 if there is none.
inline std::uint8_t take_choice(std::string_view& input) {
    if (input.empty()) return 0;
    const auto choice = static_cast<std::uint8_t>(input.front());
    input.remove_prefix(1);
    return choice;
}

// Ends the program as a crash does: libFuzzer then keeps the input.
inline void promise(bool kept, const char* what) {
    if (kept) return;
    std::fprintf(stderr, "broken promise: %s\n", what);
    std::abort();
}

}  // namespace rtrain::fuzz

// Names that a program gives to checkpoints.
#pragma once

#include <string>
#include <string_view>

namespace rtrain::storage {

inline constexpr std::size_t checkpoint_name_most = 200;  // bytes: what is made of a name must be a name of a file, too

// "latest-a002": the form of names that rtrain numbers itself.
inline bool has_attempt_form(std::string_view name) {
    const auto last = name.find_last_not_of("0123456789");
    return last != std::string_view::npos && last >= 2 && name.size() - last > 3 && name.substr(last - 1, 2) == "-a";
}

// Why `name` cannot be the directory of a checkpoint just as it is; empty: it can. Python has the same rules
// (runtime/python/rtrain/train/_checkpoints/_checkpoint_names.py).
inline std::string checkpoint_name_fault(std::string_view name) {
    if (name.empty()) return "is empty";
    if (name.size() > checkpoint_name_most)
        return "has " + std::to_string(name.size()) + " bytes; the most is " + std::to_string(checkpoint_name_most);
    for (const char c : name)
        if (c == '/' || c == '\\' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
            return "may not contain '/', '\\' or control characters";
    if (name.front() == '.') return "may not begin with '.'";
    for (const std::string_view own : {"attempts", "code", "logs", "names"})
        if (name == own) return "is that of a directory which every run has";
    if (name.ends_with(".json") || name.ends_with(".pkl"))
        return "may not end with .json or .pkl, as the run's own files do";
    if (has_attempt_form(name)) return "may not end with -a and digits: rtrain itself numbers names so";
    return {};
}

}  // namespace rtrain::storage

// Names that a program gives to checkpoints.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace rtrain::storage {

// in bytes; the names of files that are derived from a checkpoint's name must not be too long either
inline constexpr std::size_t checkpoint_name_most = 200;

// Returns true for the form of names that rtrain numbers itself, such as "latest-a002".
inline bool has_attempt_form(std::string_view name) {
    const auto last = name.find_last_not_of("0123456789");
    return last != std::string_view::npos && last >= 2 && name.size() - last > 3 && name.substr(last - 1, 2) == "-a";
}

// Returns why `name` cannot be the name of a checkpoint's directory; empty if it can. Python has the same rules
// (runtime/python/rtrain/train/_values/_checkpoint_names.py).
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

// the most parts of a path to a directory that the training loop has made itself
inline constexpr std::size_t checkpoint_parts_most = 8;

// Returns why `path`, relative to the run's directory, cannot be a checkpoint's directory; empty if it can. The first
// part is a name as above. The other parts name the user's own directories below it, which hold no files of rtrain.
// Python has the same rules.
inline std::string checkpoint_path_fault(std::string_view path) {
    const std::string_view first = path.substr(0, path.find('/'));
    if (first.size() == path.size()) return checkpoint_name_fault(path);
    if (path.size() > checkpoint_name_most)
        return "has " + std::to_string(path.size()) + " bytes; the most is " + std::to_string(checkpoint_name_most);
    if (const std::string why = checkpoint_name_fault(first); !why.empty())
        return "begins with '" + std::string(first) + "', which " + why;
    std::size_t parts = 1;
    for (std::size_t begin = first.size() + 1; begin <= path.size(); ++parts) {
        const std::size_t end = std::min(path.find('/', begin), path.size());
        const std::string_view part = path.substr(begin, end - begin);
        if (part.empty()) return "may not have an empty part";
        if (part.front() == '.') return "may not have a part that begins with '.'";
        for (const char c : part)
            if (c == '\\' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
                return "may not contain '\\' or control characters";
        begin = end + 1;
    }
    if (parts > checkpoint_parts_most)
        return "has " + std::to_string(parts) + " parts; the most is " + std::to_string(checkpoint_parts_most);
    return {};
}

}  // namespace rtrain::storage

// Shared by the readers of an operator's YAML files (queues, storage rules). Unknown fields are reported with all other
// problems, in the order of the file.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "storage/job_spec/value.hpp"

namespace rtrain::spec {

class FileReader {
  protected:
    using Take = std::function<void(const std::string& path, const Value&)>;
    enum class Null { taken, left_out };  // how `field: null` is read: as a value, or as an absent field

    explicit FileReader(Problems problems) : problems_(std::move(problems)) {}
    void problem(const std::string& path, const Place& place, const std::string& message,
                 const std::string& suggestion = "") {
        problems_.push_back({path, place.line, place.column, message, suggestion});
    }
    void fields(const Value& map, const std::string& path, const std::map<std::string, Take>& known, Null null);
    Problems sorted() &&;  // sorted by position; problems without a position come last

    Problems problems_;
};

// Returns the answer of a Reader. `read` takes the file's content; `answer` returns the value or the problems.
template <class Reader>
auto read_file(const std::string& yaml_text) -> decltype(std::declval<Reader&&>().answer()) {
    Tree tree = yaml_tree(yaml_text);
    const bool unreadable = !tree.problems.empty() && tree.root.entries.empty();
    if (unreadable) return {std::nullopt, std::move(tree.problems)};
    Reader reader(std::move(tree.problems));
    reader.read(tree.root);
    return std::move(reader).answer();
}

}  // namespace rtrain::spec

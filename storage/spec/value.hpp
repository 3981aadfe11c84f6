// A tree of what a user wrote, with positions: the common ground of YAML, JSON and --set. Inside of storage/spec only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "storage/spec/job.hpp"
#include "storage/spec/limits.hpp"

namespace rtrain::spec {

enum class Kind { null, boolean, number, string, list, map };

struct Place {  // from 1; line 0: not from the file
    int line = 0, column = 0;
};

struct Entry;
struct Value {
    Kind kind = Kind::null;
    std::string text;  // string: its content. number, boolean: as JSON writes it
    std::string raw;   // number: as it was written ("3.10")
    std::vector<Value> items;
    std::vector<Entry> entries;  // in the file's order, no key twice
    Place place;
    std::string set;  // the --set it came from

    const Value* find(std::string_view key) const;
};
struct Entry {
    std::string key;
    Place place;
    Value value;
};

struct Tree {
    Value root;
    Problems problems;
    std::size_t problems_more = 0;  // beyond those that are listed

    void add(Problem problem);
};
// The last of a list that is not whole: "and 59900 more problems".
void add_count(Problems& problems, std::size_t more);
Tree yaml_tree(const std::string& text);
Tree json_tree(const std::string& text);
std::string to_json_text(const Value& value);

// What an unquoted scalar means in YAML 1.2, or why it has to be quoted because YAML 1.1 reads it otherwise.
struct Plain {
    Kind kind = Kind::string;
    std::string json;  // of a number or boolean
    std::string trap;  // not empty: refuse, and say this
};
Plain plain_scalar(const std::string& text);

// Lays `--set a.b=v` over the tree. What is wrong with it becomes a problem that names it.
void lay_over(Tree& tree, const std::string& set);
// ${VAR}, ${VAR:-x} and $$ in the values that take them.
void put_in_variables(Tree& tree, const std::map<std::string, std::string>& environment);

// The nearest of `known` to a mistyped word, or empty.
std::string nearest(std::string_view word, const std::vector<std::string>& known);
std::string did_you_mean(const std::string& word);  // empty stays empty
std::string shown(std::string_view text);           // quoted, short, control characters made visible
std::string below(const std::string& path, const std::string& key);
std::string below(const std::string& path, std::size_t index);

// Checks the text before any parser sees it: size, UTF-8, control characters, tabs that indent, directives.
Problems text_problems(const std::string& text);
bool is_text(std::string_view text);  // UTF-8 without zero bytes

}  // namespace rtrain::spec

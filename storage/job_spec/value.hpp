// A tree of user input with positions, made from YAML, JSON and --set. Used inside of storage/job_spec only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "storage/job_spec/job.hpp"
#include "storage/job_spec/limits.hpp"
#include "storage/job_spec/words.hpp"

namespace rtrain::spec {

enum class Kind { null, boolean, number, string, list, map };

struct Place {  // counts from 1; line 0: the value is not from the file
    int line = 0, column = 0;
};

struct Entry;
struct Value {
    Kind kind = Kind::null;
    std::string text;  // content of a string; JSON text of a number or boolean
    std::string raw;   // text of a number as the user wrote it ("3.10")
    std::vector<Value> items;
    std::vector<Entry> entries;  // sorted as in the file; each key occurs once
    Place place;
    std::string set;  // the --set that the value is from; empty: it is from the file

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
    std::size_t problems_more = 0;  // number of problems beyond the listed ones

    void add(Problem problem);
};
// Adds the last entry of an incomplete list: "and 59900 more problems".
void add_count(Problems& problems, std::size_t more);
Tree yaml_tree(const std::string& text);
Tree json_tree(const std::string& text);
std::string to_json_text(const Value& value);

// The meaning of an unquoted scalar in YAML 1.2, or why it must be quoted because YAML 1.1 reads it differently.
struct Plain {
    Kind kind = Kind::string;
    std::string json;  // JSON text of a number or boolean
    std::string trap;  // not empty: the scalar is refused, and this is the reason
};
Plain plain_scalar(const std::string& text);

// Applies `--set a.b=v` to the tree. A faulty --set becomes a problem that names it.
void lay_over(Tree& tree, const std::string& set);
// Expands ${VAR}, ${VAR:-x} and $$ in the values of the fields that allow variables.
void put_in_variables(Tree& tree, const std::map<std::string, std::string>& environment);

std::string shown(std::string_view text);  // quotes and shortens the text, and escapes control characters
std::string below(const std::string& path, const std::string& key);
std::string below(const std::string& path, std::size_t index);

// Checks the text before it is parsed: size, UTF-8, control characters, tabs for indentation, directives.
Problems text_problems(const std::string& text);
bool is_text(std::string_view text);  // true for valid UTF-8 without zero bytes

}  // namespace rtrain::spec

// Data goes to stdout, messages to stderr. One JSON value is printed in six formats: as a table or text for people and
// as json, jsonl, yaml or name for programs, so that no format contains more than another.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace rtrain::cmd {

enum class Format { table, wide, json, jsonl, yaml, name };
Format format_from(std::string_view text);  // `text` must be one of the choices of --output

enum class Shape { text, state, age, time, duration, bytes, list, pairs };
struct Column {
    const char* title;
    const char* field;  // name of the field; "a.b" is the field b of the object a
    Shape shape = Shape::text;
    bool wide = false;  // true: the column is shown only with -o wide
};

class Output {
  public:
    Output(Format format, std::string colour_choice);

    // Prints a list. `answer` is {"items": [...]}. `name_field` is the field that the format `name` prints. If a table
    // has no items, prints the text in `none` on stderr.
    void list(const nlohmann::json& answer, const std::vector<Column>& columns, const char* name_field,
              const char* none);
    // Prints one object. `text` is the output of the formats for people, `name_field` the field that the format `name`
    // prints.
    void document(const nlohmann::json& value, const char* name_field, const std::string& text);
    // Prints one item of a stream immediately; in the formats json and jsonl on one line.
    void each(const nlohmann::json& value, const char* name_field, const std::string& text);
    void raw(std::string_view text);     // prints a schema or a script, equal in every format
    void talk(const std::string& text);  // prints one line on stderr; prints nothing with -q
    void error(const Error& error, const Problems& problems);

    std::string take();  // for --watch: returns the text that is not written to stdout yet, and removes it
    bool flush();        // writes the text to stdout; false: stdout does not accept it
    Format format() const { return format_; }
    bool for_people() const { return format_ == Format::table || format_ == Format::wide; }
    bool colour() const { return colour_; }

  private:
    Format format_;
    bool colour_, colour_talk_;
    std::string waiting_;
};

// JSON text for a terminal: control characters beyond ASCII are escaped too
std::string terminal_json(const nlohmann::json& value, int indent);
std::string yaml_text(const nlohmann::json& value);
std::string table_text(const nlohmann::json& items, const std::vector<Column>& columns, Format format, bool colour);
std::string cell_text(const nlohmann::json& item, const Column& column);
nlohmann::json error_json(const Error& error, const Problems& problems);
std::string_view code_text(ErrorCode code);  // name of the code in the API: "not_found"
ErrorCode code_from(std::string_view text, int http_status);
int exit_code(ErrorCode code);

}  // namespace rtrain::cmd

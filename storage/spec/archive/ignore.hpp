// Which files of a working directory are left out: the rules of .gitignore, and of .rtrainignore over them. Inside of
// storage/spec only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rtrain::spec {

enum class FileKind { file, directory };

class IgnoreRules {
  public:
    // The rules of a file in directory `base` ("" is the top). Later rules win over earlier ones.
    void add_git(const std::string& base, const std::string& text) { add(git_, base, text); }
    void add_rtrain(const std::string& base, const std::string& text) { add(rtrain_, base, text); }
    bool ignored(const std::string& path, FileKind kind) const;  // relative to the top, '/'-separated

  private:
    struct Rule {
        std::string base;
        std::vector<std::string> parts;  // of the pattern; "**" is any number of directories
        bool keep = false;               // began with '!'
        bool directories_only = false;
    };
    static void add(std::vector<Rule>& rules, const std::string& base, const std::string& text);
    static bool hits(const Rule& rule, const std::string& path, FileKind kind);

    std::vector<Rule> git_, rtrain_;
};

bool glob_matches(std::string_view pattern,
                  std::string_view name);  // one part: * ? [a-z] [!a] [[:digit:]] and \ escapes

}  // namespace rtrain::spec

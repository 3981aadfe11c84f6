// See template_spec.hpp. The rules are in docs/warm-workers.md.
#include "daemon/agent/warm/template_spec.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "base/crypto/digest.hpp"
#include "base/descriptor.hpp"
#include "daemon/agent/workers/entrypoint.hpp"

namespace rtrain::agent {
namespace {

constexpr std::int64_t threads_max = 4'096;

// Variables that rtrain sets anew for each attempt. The template has none of them, and the worker gets them.
const char* const own_names[] = {
    "RTRAIN_*",         "TORCHELASTIC_*", "RANK",        "WORLD_SIZE",       "LOCAL_RANK", "NODE_RANK",
    "LOCAL_WORLD_SIZE", "GROUP_RANK",     "ROLE_RANK",   "GROUP_WORLD_SIZE", "ROLE_NAME",  "ROLE_WORLD_SIZE",
    "MASTER_ADDR",      "TMPDIR",         "MASTER_PORT", "OMP_NUM_THREADS",  "PATH",       "CUDA_VISIBLE_DEVICES",
    "TF_CONFIG",        "DMLC_*"};
// Variables that loader, interpreter and libraries read when they start. No secret may be one of them.
const char* const read_at_start[] = {"LD_*",  "PYTHON*",   "OMP_*",    "MKL_*",  "OPENBLAS_*", "GOTO_*",
                                     "KMP_*", "NUMEXPR_*", "MALLOC_*", "TORCH*", "PYTORCH_*",  "GLIBC_TUNABLES"};
// Variables with effects on a library's threads that its calls cannot set later, except OMP_NUM_THREADS.
const char* const of_threads[] = {"OMP_*", "MKL_*", "OPENBLAS_*", "GOTO_*", "KMP_*", "NUMEXPR_*", "GOMP_*"};
// The CUDA_VISIBLE_DEVICES of a template for workers with GPUs: a name that no GPU has, so the template sees no GPU.
// PyTorch loads NVML's library to look the name up, so the template can detect a module that has counted the GPUs. The
// template of workers without GPUs has an empty value, as its workers.
const char* const no_gpu = "GPU-none";
const char* const of_folders[] = {"PYTHONPATH", "PYTHONHOME", "PYTHONPYCACHEPREFIX", "PYTHONUSERBASE",
                                  "LD_LIBRARY_PATH"};

template <std::size_t size>
bool is_one_of(const std::string& name, const char* const (&patterns)[size]) {
    return std::any_of(std::begin(patterns), std::end(patterns), [&](const std::string& pattern) {
        return pattern.ends_with('*') ? name.starts_with(pattern.substr(0, pattern.size() - 1)) : name == pattern;
    });
}

// Returns the words that the shell would run for `sh -c "exec python train.py"`, the form of `without_shell_layer`.
std::vector<std::string> without_shell(const std::vector<std::string>& program) {
    if (program.size() != 3 || program[0] != "sh" || program[1] != "-c") return program;
    const std::string& text = program[2];
    if (!text.starts_with("exec ") || text.find_first_of(";&|<>(){}`\n\\#!*?[~$\"'") != std::string::npos)
        return program;
    std::istringstream words(text.substr(5));
    std::vector<std::string> out;
    for (std::string word; words >> word;) out.push_back(word);
    return out;
}

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Returns true also if the file cannot be read. The job chooses the path, so the open must not block on a pipe or
// device.
bool is_script(const std::string& file) {
    const storage::Descriptor in(::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat facts{};
    if (!in.open() || ::fstat(in.number(), &facts) != 0 || !S_ISREG(facts.st_mode)) return true;
    char first[2] = {};
    return ::read(in.number(), first, 2) != 2 || (first[0] == '#' && first[1] == '!');
}

// Returns the path of the interpreter for the program's first word; empty if none is on the PATH.
std::string python_of(const TemplateWish& wish, const std::string& word) {
    const auto path = wish.start.environment.find("PATH");
    if (path == wish.start.environment.end()) return {};
    std::string file = program_on_path(word, path->second);
    if (!wish.added_path.empty() && file == wish.added_path + "/python")
        file = program_on_path(wish.interpreter, wish.path);
    return file.starts_with('/') ? file : "";
}

std::string why_no_program(const std::vector<std::string>& program) {
    if (program.size() < 2 || !base_name(program[0]).starts_with("python")) return "its program is not python";
    if (program[1] == "-m") return program.size() > 2 ? "" : "its program is not python";
    return program[1].starts_with('-') ? "python is given the option " + program[1] : "";
}

// Returns true if a list of paths has a relative entry. The template runs in another directory than the worker.
bool has_relative_entry(const std::string& paths) {
    for (std::size_t at = 0; at <= paths.size();) {
        const std::size_t end = std::min(paths.find(':', at), paths.size());
        if (end == at || paths[at] != '/') return true;
        at = end + 1;
    }
    return false;
}

std::string why_no_environment(const TemplateWish& wish) {
    for (const std::string& name : wish.secrets)
        if (is_one_of(name, read_at_start)) return "the secret " + name + " is read when a process starts";
    for (const auto& [name, value] : wish.start.environment) {
        if (name != "OMP_NUM_THREADS" && is_one_of(name, of_threads)) return name + " is set";
        if (!value.empty() && is_one_of(name, of_folders) && has_relative_entry(value))
            return name + " has an entry that is no absolute path";
    }
    return {};
}

std::int64_t threads_of(const Environment& environment) {
    const auto value = environment.find("OMP_NUM_THREADS");
    if (value == environment.end()) return 0;
    std::int64_t threads = 0;
    const std::string& text = value->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), threads);
    const bool whole = error == std::errc() && end == text.data() + text.size();
    return whole && threads <= threads_max ? threads : 0;
}

TemplateSpec spec_of(const TemplateWish& wish, std::string python) {
    TemplateSpec spec{.token_user = wish.token_user,
                      .user = wish.start.user,
                      .allow_setuid = wish.start.allow_setuid,
                      .python = std::move(python),
                      .modules = {"torch", "torch._dynamo"}};
    spec.modules.insert(spec.modules.end(), wish.preload.begin(), wish.preload.end());
    for (const auto& [name, value] : wish.start.environment) {
        const bool is_secret = std::find(wish.secrets.begin(), wish.secrets.end(), name) != wish.secrets.end();
        if (!is_secret && !is_one_of(name, own_names)) spec.environment[name] = value;
    }
    spec.environment["PATH"] = wish.path;
    spec.environment["OMP_NUM_THREADS"] = "1";
    const auto gpus = wish.start.environment.find("CUDA_VISIBLE_DEVICES");
    spec.environment["CUDA_VISIBLE_DEVICES"] =
        gpus == wish.start.environment.end() || gpus->second.empty() ? "" : no_gpu;
    spec.key = key_of(spec);
    return spec;
}

}  // namespace

std::string key_of(const TemplateSpec& spec) {
    std::string text = spec.token_user;
    const auto add = [&text](const std::string& part) { text.append(1, '\0').append(part); };
    for (const std::int64_t number : {spec.user.uid, spec.user.gid, std::int64_t{spec.allow_setuid}})
        add(std::to_string(number));
    add(spec.user.name);
    for (const std::int64_t group : spec.user.groups) add(std::to_string(group));
    add(spec.python);
    for (const std::string& module : spec.modules) add(module);
    add("");
    for (const auto& [name, value] : spec.environment) add(name + "=" + value);
    return crypto::sha256_hex(text);
}

std::string interpreter_of(const TemplateWish& wish) {
    const std::vector<std::string> program = without_shell(wish.start.program);
    return program.empty() || !base_name(program[0]).starts_with("python") ? "" : python_of(wish, program[0]);
}

TemplateChoice choose_template(const TemplateWish& wish) {
    TemplateChoice choice;
    const std::vector<std::string> program = without_shell(wish.start.program);
    choice.why_not = why_no_program(program);
    if (choice.why_not.empty()) choice.why_not = why_no_environment(wish);
    if (!choice.why_not.empty()) return choice;
    const std::string python = python_of(wish, program[0]);
    choice.start.threads = threads_of(wish.start.environment);
    if (python.empty() || is_script(python))
        choice.why_not = "its python is not an interpreter on the PATH of the node";
    else if (choice.start.threads < 1)
        choice.why_not = "OMP_NUM_THREADS is not a number of threads";
    if (!choice.why_not.empty()) return choice;
    choice.spec = spec_of(wish, python);
    choice.start.program = program;
    // The `python` that the attempt has added to its path runs the interpreter itself.
    if (!wish.added_path.empty() &&
        program_on_path(program[0], wish.start.environment.at("PATH")).starts_with(wish.added_path + "/"))
        choice.start.program[0] = python;
    choice.start.environment = wish.start.environment;
    if (program != wish.start.program) choice.start.environment["PWD"] = wish.start.cwd;  // a shell would set it
    if (!wish.working_dir.empty()) choice.start.folders.push_back(wish.working_dir);
    return choice;
}

}  // namespace rtrain::agent

// Declares the rows of the table of verbs: one function for each file of this folder, and one for
// cmd/local/local_cluster.cpp.
#pragma once

#include <vector>

#include "cmd/line/command.hpp"

namespace rtrain::cmd {

std::vector<Command> backup_commands();
std::vector<Command> checkpoint_commands();
std::vector<Command> context_commands();
std::vector<Command> dashboard_commands();
std::vector<Command> describe_commands();
std::vector<Command> doctor_commands();
std::vector<Command> follow_commands();
std::vector<Command> head_commands();
std::vector<Command> install_commands();
std::vector<Command> local_cluster_commands();
std::vector<Command> node_commands();
std::vector<Command> node_use_commands();
std::vector<Command> plan_commands();
std::vector<Command> program_commands();
std::vector<Command> queue_commands();
std::vector<Command> quota_commands();
std::vector<Command> report_commands();
std::vector<Command> request_commands();
std::vector<Command> restore_commands();
std::vector<Command> run_commands();
std::vector<Command> simulate_commands();
std::vector<Command> stack_commands();
std::vector<Command> storage_commands();
std::vector<Command> submit_commands();
std::vector<Command> token_commands();

}  // namespace rtrain::cmd

// Several folders of one model: parts of it, and mirrors. What is wrong with them together.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "io/checkpoint/model_folder.h"
#include "io/error.h"

namespace sluice {

// Each location's folder (see find_model_folder), in order. A folder that is given twice, among the
// locations or as a mirror, is a usage error that names it: it would count as two drives.
Result<std::vector<ModelFolder>> find_folders_of(std::span<const std::string> locations,
                                                 const std::string& revision,
                                                 std::span<const std::string> mirrors);

// Fails (not_found) where a mirror has all of the shards that are missing, saying what to do.
Result<void> check_mirrors_for(std::span<const std::string> missing,
                               std::span<const std::string> mirrors);

// One line of warning for each folder all of whose `shards` are in an earlier one, which is where
// they are read: most likely it was meant as a mirror.
void warn_unread(std::span<const ModelFolder> folders, std::span<const std::string> shards);

// "sluice inspect LOCATIONS --check", quoted for a shell: what reads and judges every byte.
std::string check_command(std::span<const std::string> locations, const std::string& revision,
                          std::span<const std::string> mirrors);

}  // namespace sluice

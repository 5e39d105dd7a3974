// The folders of one model taken together, parts of it and mirrors: errors and warnings about them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "io/checkpoint/model_folder.h"
#include "io/error.h"

namespace sluice {

// The folder of each location (see find_model_folder), in order. A folder that is given twice, as a
// location or as a mirror, is a usage error that names it: it would count as two drives.
Result<std::vector<ModelFolder>> find_folders_of(std::span<const std::string> locations,
                                                 const std::string& revision,
                                                 std::span<const std::string> mirrors);

// Fails (not_found), saying what to do, if one of the mirrors has all of the missing shards.
Result<void> check_mirrors_for(std::span<const std::string> missing,
                               std::span<const std::string> mirrors);

// Warns in one line about each folder all of whose `shards` are in earlier folders too, from which
// they are read: most likely it was meant as a mirror.
void warn_unread(std::span<const ModelFolder> folders, std::span<const std::string> shards);

// "sluice inspect LOCATIONS --check", quoted for a shell: the command that checks every byte.
std::string check_command(std::span<const std::string> locations, const std::string& revision,
                          std::span<const std::string> mirrors);

}  // namespace sluice

// --version and --list-devices.
#pragma once

namespace sluice {

int show_version();
// One line a device, on standard output: name for --device, and what it is.
int show_devices();

}  // namespace sluice

// Where the test checkpoints and the golden traces are. Constants of one source file, so that no
// other depends on where the project is built.
#pragma once

namespace sluice::test {

extern const char* const models_folder;  // tests/models
extern const char* const golden_folder;  // tests/golden

}  // namespace sluice::test

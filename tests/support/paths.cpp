#include "tests/support/paths.h"

namespace sluice::test {

constinit const char* const models_folder = SLUICE_TEST_MODELS;
constinit const char* const golden_folder = SLUICE_TEST_GOLDEN;

}  // namespace sluice::test

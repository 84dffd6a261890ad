// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace piper::test {

/// Processes whose command line contains `word` (this one excepted); reads /proc.
[[nodiscard]] std::vector<pid_t> processesNaming(const std::string& word);

}  // namespace piper::test

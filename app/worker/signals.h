// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace piper {

/// From here on SIGINT and SIGTERM are only remembered.
void watchSignals();
/// The last of them, 0 for none.
[[nodiscard]] int caughtSignal();

}  // namespace piper

// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>

#include "core/base/evidence.h"
#include "core/base/result.h"
#include "core/base/units.h"

namespace piper::ui {

/// Numbers as the views show them: the locale's separators, always with a unit. Exports use
/// core's plain formats instead.
[[nodiscard]] QString percentText(double ratio, int decimals = 1);
/// "+12.3 %", with the sign; "–" when the base is zero.
[[nodiscard]] QString differenceText(double base, double other);
[[nodiscard]] QString secondsText(Seconds s);
[[nodiscard]] QString nanosecondsText(std::int64_t ns);
[[nodiscard]] QString bytesText(Bytes b);
[[nodiscard]] QString flopsText(Flops f);
/// 123456 -> "123,456".
[[nodiscard]] QString countText(double count);
[[nodiscard]] QString countText(std::int64_t count);
/// 13.0e9 -> "13.0 B".
[[nodiscard]] QString parametersText(double count);
[[nodiscard]] QString evidenceText(EvidenceKind kind);
[[nodiscard]] QString text(std::string_view s);
/// message, then the hint on a second line.
[[nodiscard]] QString errorText(const Error& error);

}  // namespace piper::ui

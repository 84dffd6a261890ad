// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <vector>

#include "ui/models/report.h"

// Shared by the sources of a report; not for others.
namespace piper::ui {

/// The numbers behind a report as files: CSV with plain numbers and units in the header, plan.json.
[[nodiscard]] std::vector<ExportedFile> reportFiles(const ReportSource& source,
                                                    const Roofline& roofline);

}  // namespace piper::ui

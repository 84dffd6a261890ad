// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>
#include <vector>

#include "core/plan/plan.h"
#include "sessions/host_facts.h"

namespace piper::ui {

struct CardRow {
    QString label;
    QString value;
    QString definition;
};

/// The model in the fewest numbers that identify it.
[[nodiscard]] std::vector<CardRow> modelCard(const ModelSpec& model);
/// Devices, nodes and links.
[[nodiscard]] std::vector<CardRow> clusterCard(const ClusterSpec& cluster);
/// What a host says of itself; a fact that could not be had says why.
[[nodiscard]] std::vector<CardRow> hostCard(const HostFacts& facts);
/// "pp 4 × ep 8 × dp 16 × tp 1 · 64 devices · 16 micro-batches"
[[nodiscard]] QString layoutText(const Plan& plan);

}  // namespace piper::ui

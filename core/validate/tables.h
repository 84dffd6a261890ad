// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "core/base/csv.h"
#include "core/cluster/cluster.h"
#include "core/model/model.h"

namespace piper {

/// The tables that names in measured runs are looked up in, as CSV texts; an empty one is the
/// bundled table of core/validate/data.
struct ReferenceTexts {
    std::string models, model_alias, gpus, gpu_alias;
};

/// Models and devices by the names that publications use.
class ReferenceTables {
public:
    /// Errors: InvalidInput with table, line and column.
    [[nodiscard]] static Result<ReferenceTables> read(const ReferenceTexts& texts);

    struct NamedModel {
        ModelSpec model;
        bool names_vocabulary = false;  ///< else it has 51,200, GPT-2's padded by Megatron-LM
        bool trains_mtp = false;        ///< the architecture has a multi-token prediction layer
        bool other_gate = false;        ///< experts gate with another function than SiLU (GPT-OSS)
    };
    /// Errors: NotFound for a name without an entry; Unsupported when out of scope, with the note;
    /// InvalidInput for dims that are not sound.
    [[nodiscard]] Result<NamedModel> model(std::string_view name) const;
    /// The cluster of so many devices; 0 devices a node: the device's usual number. A device that
    /// is in the table and not in the catalogue has the table's numbers.
    /// Errors: NotFound as model(); Unsupported for a device without an entry; InvalidInput.
    [[nodiscard]] Result<ClusterSpec> cluster(std::string_view device, std::int64_t world,
                                              std::int64_t devices_per_node) const;
    /// The catalogue's name of a device. Errors: as cluster().
    [[nodiscard]] Result<std::string> deviceName(std::string_view name) const;

private:
    CsvTable m_models, m_model_alias, m_gpus, m_gpu_alias;
};

/// The bundled table "models", "model_alias", "gpus" or "gpu_alias".
[[nodiscard]] std::string_view bundledTable(std::string_view name);

}  // namespace piper

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/model/model.h"

namespace piper {

/// How a family of models grows from one of its members; everything else stays as it is.
///   layers   the leading dense layers stay, the pattern after them goes on
///   experts  routed experts of a layer, in steps of an eighth of what the member has, or of the
///            power of two below it that divides that number
///   hidden   attention groups (key-value heads of grouped-query attention, heads of the others),
///            in such steps too: hidden size, heads and every feed-forward width in proportion,
///            head sizes as they are
enum class GrowBy { Layers, Experts, Hidden };

/// The member's own size in that direction.
[[nodiscard]] std::int64_t familySize(const ModelSpec& member, GrowBy by);
/// The smallest member: as many layers as it takes to have one of each kind, as many experts as the
/// router picks, one attention group.
[[nodiscard]] std::int64_t familyLeast(const ModelSpec& member, GrowBy by);
/// The least difference between two sizes.
[[nodiscard]] std::int64_t familyStep(const ModelSpec& member, GrowBy by);

/// The family's model of that size. Errors: InvalidInput for a size below familyLeast, or experts
/// of a dense model.
[[nodiscard]] Result<ModelSpec> familyMember(const ModelSpec& member, GrowBy by, std::int64_t size);

}  // namespace piper

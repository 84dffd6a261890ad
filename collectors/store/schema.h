// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "collectors/store/chunks.h"
#include "collectors/store/database.h"

namespace piper::sqlite {

inline constexpr std::int64_t kApplicationId = 0x50495052;  ///< "PIPR"
inline constexpr std::int64_t kSchemaVersion = 4;           ///< user_version; see docs/formats.md

inline constexpr std::int64_t kSchemaOfRows = 3;   ///< first with tables row, tile and total
inline constexpr std::int64_t kSchemaOfSteps = 4;  ///< first with table step_window

/// The streams of a rank, each stored as chunks; the numbers are part of the file format.
enum class Stream : std::int64_t {
    Event = 0,
    Memory = 1,
    Clock = 2,
    Step = 3,
    ExpertLoad = 4,
    StepTotals = 5  ///< of a digest
};

/// Settings of a connection that writes: WAL, synchronous NORMAL.
Status prepareForWriting(Database& database);
/// Makes the tables and the vocabulary in an empty file.
Status createSchema(Database& database);
/// Errors: InvalidInput for another program's file and for one of a newer version.
Status checkIdentity(Database& database);
/// Brings a file of an older version to this one, step by step, in one transaction with what
/// `then` does for a file of that version.
Status migrate(Database& database, const std::function<Status(std::int64_t version)>& then);
/// Adds to a file's vocabulary what this program may write and it does not know yet.
/// Errors: InvalidInput where the file gives a number another meaning.
Status completeVocabulary(Database& database);
/// The words behind the numbers of this file.
Result<CodeTables> readCodeTables(Database& database);

}  // namespace piper::sqlite
